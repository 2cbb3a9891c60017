#include "datatype/predefined.h"

#include <string>

namespace tern {
namespace {

// Bounds, layout and signature of one element of a row.
Datatype::Parts parts_of(const Kind& kind) {
  Datatype::Parts parts;
  parts.kind = &kind;
  parts.predefined = parts.committed = true;
  parts.signature = signature::basic(kind);
  Bounds& bounds = parts.bounds;
  bounds.empty = false;
  bounds.alignment = kind.alignment;
  bounds.upper = kind.extent;
  if (kind.type_class == TypeClass::pair) {
    int64_t value = int64_t(rep_size(kind.rep)), index = int64_t(rep_size(kind.index_rep));
    parts.layout = layout::pieces({0, kind.index_offset}, {value, index});
    bounds.true_upper = kind.index_offset + index;
  } else {
    parts.layout = layout::block(kind.size);
    bounds.true_upper = kind.size;
  }
  return parts;
}

}  // namespace

Datatype* PredefinedTypes::make(int id) {
  const Kind* kind = kind_of(id);
  if (!kind) return nullptr;
  Datatype::Parts parts = parts_of(*kind);
  parts.name = kind->name;
  Ref<Datatype>& slot = named_[size_t(id - kFirst)];
  slot = Ref<Datatype>::adopt(new Datatype(std::move(parts)));
  slot->handle = id;
  return slot.get();
}

Datatype* PredefinedTypes::unnamed(Combiner combiner, int first, int second, const Kind& kind) {
  Ref<Datatype>& slot = unnamed_[{combiner, first, second}];
  if (slot) return slot.get();
  Datatype::Parts parts = parts_of(kind);
  parts.envelope.combiner = combiner;
  switch (combiner) {
    case Combiner::value_index:
      parts.envelope.types.push_back(Ref<Datatype>::share(&get(first)));
      parts.envelope.types.push_back(Ref<Datatype>::share(&get(second)));
      break;
    case Combiner::f90_integer: parts.envelope.integers = {first}; break;
    default: parts.envelope.integers = {first, second}; break;
  }
  slot = Ref<Datatype>::adopt(new Datatype(std::move(parts)));
  return slot.get();
}

Datatype* PredefinedTypes::value_index(const Datatype& value, const Datatype& index) {
  if (!value.kind() || !index.kind()) return nullptr;
  Kind pair;
  if (!make_pair_kind(*value.kind(), *index.kind(), pair)) return nullptr;
  if (pair.id != 0) return find(pair.id);
  return unnamed(Combiner::value_index, pair.value_id, pair.index_id, pair);
}

Error PredefinedTypes::f90_floating(Combiner combiner, int precision, int range, Datatype*& type) {
  // What gfortran's selected_real_kind gives on this platform: kind, its decimal digits and exponent range.
  struct Row {
    int digits, exponent, real_id, complex_id;
  };
  static constexpr Row kReals[] = {
      {6, 37, type_id::kReal4, type_id::kComplex8},
      {15, 307, type_id::kReal8, type_id::kComplex16},
      {18, 4931, type_id::kLongDouble, type_id::kCLongDoubleComplex},
      {33, 4931, type_id::kReal16, type_id::kComplex32},
  };
  if (precision == kUndefined && range == kUndefined)
    return Error(ErrorClass::arg, "precision and range are both MPI_UNDEFINED; at least one must be given");
  int digits = precision == kUndefined ? 0 : precision, exponent = range == kUndefined ? 0 : range;
  for (const Row& row : kReals) {
    if (digits > row.digits || exponent > row.exponent) continue;
    int id = combiner == Combiner::f90_real ? row.real_id : row.complex_id;
    type = unnamed(combiner, precision, range, *kind_of(id));
    return {};
  }
  return Error(ErrorClass::arg, "no Fortran kind has " + std::to_string(digits) +
                                    " decimal digits and the exponent range " + std::to_string(exponent) +
                                    " (at most 33 and 4931)");
}

Error PredefinedTypes::f90_real(int precision, int range, Datatype*& type) {
  return f90_floating(Combiner::f90_real, precision, range, type);
}

Error PredefinedTypes::f90_complex(int precision, int range, Datatype*& type) {
  return f90_floating(Combiner::f90_complex, precision, range, type);
}

Error PredefinedTypes::f90_integer(int range, Datatype*& type) {
  struct Row {
    int digits, id;
  };
  static constexpr Row kIntegers[] = {{2, type_id::kInteger1},
                                      {4, type_id::kInteger2},
                                      {9, type_id::kInteger4},
                                      {18, type_id::kInteger8},
                                      {38, type_id::kInteger16}};
  for (const Row& row : kIntegers) {
    if (range > row.digits) continue;
    type = unnamed(Combiner::f90_integer, range, 0, *kind_of(row.id));
    return {};
  }
  return Error(ErrorClass::arg,
               "no Fortran integer kind has " + std::to_string(range) + " decimal digits (at most 38)");
}

Datatype* PredefinedTypes::match_size(TypeClass type_class, Count size_bytes) {
  const Kind* kind = tern::match_size(type_class, size_bytes);
  return kind ? find(kind->id) : nullptr;
}

}  // namespace tern
