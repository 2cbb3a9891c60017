// Datatypes, all but their constructors and packing: queries, committing, freeing, names, envelopes,
// addresses. Source: MPI 5.0 chapter 5, 7.8, 19.1.5. Thread rule: bodies, under the rank's lock.
#include <cstring>

#include "capi/attribute.h"
#include "capi/checks.h"
#include "datatype/construct.h"
#include "impl.gen.h"

namespace tern::capi::body {

Error Type_size(Call& call, Datatype& datatype, Count& size) {
  size = datatype.size();
  return {};
}

Error Type_get_extent(Call& call, Datatype& datatype, Count& lb, Count& extent) {
  lb = datatype.lower_bound();
  extent = datatype.extent();
  return {};
}

Error Type_get_true_extent(Call& call, Datatype& datatype, Count& true_lb, Count& true_extent) {
  true_lb = datatype.true_lower_bound();
  true_extent = datatype.true_extent();
  return {};
}

Error Type_commit(Call& call, Datatype& datatype) {
  datatype.commit();
  return {};
}

Error Type_free(Call& call, Datatype*& datatype) {
  if (datatype->is_predefined())
    return Error(ErrorClass::type, "the datatype " +
                                       (datatype->is_named() ? datatype->name() : std::string("is predefined and")) +
                                       " cannot be freed");
  if (Checks* checks = call.checks()) [[unlikely]]
    checks->uses_alone(static_cast<const void*>(datatype));
  if (Error error = delete_attributes(*datatype)) return error;
  Ref<Datatype>::adopt(datatype).reset();
  datatype = nullptr;
  return {};
}

Error Type_dup(Call& call, Datatype& oldtype, Datatype*& newtype) {
  Ref<Datatype> made;
  if (Error error = construct::dup(oldtype, made)) return error;
  if (Error error = copy_attributes(oldtype, *made)) return error;
  newtype = made.release();
  return {};
}

Error Type_set_name(Call& call, Datatype& datatype, const char* type_name) {
  datatype.set_name(std::string(type_name, strnlen(type_name, MPI_MAX_OBJECT_NAME - 1)));
  return {};
}

Error Type_get_name(Call& call, Datatype* datatype, char* type_name, int& resultlen) {
  const std::string name = datatype ? datatype->name() : "MPI_DATATYPE_NULL";
  std::memcpy(type_name, name.c_str(), name.size() + 1);
  resultlen = int(name.size());
  return {};
}

// --- Envelope and contents.

static Error large_only() {
  return Error(ErrorClass::type,
               "the datatype was made by a large-count constructor; ask with the variant whose name ends in _c");
}

Error Type_get_envelope(Call& call, Datatype& datatype, int& num_integers, int& num_addresses, int& num_datatypes,
                        int& combiner) {
  const Envelope& envelope = datatype.envelope();
  if (!envelope.large_counts.empty()) return large_only();
  num_integers = int(envelope.integers.size());
  num_addresses = int(envelope.addresses.size());
  num_datatypes = int(envelope.types.size());
  combiner = int(envelope.combiner);
  return {};
}

Error Type_get_envelope_c(Call& call, Datatype& datatype, Count& num_integers, Count& num_addresses,
                          Count& num_large_counts, Count& num_datatypes, int& combiner) {
  const Envelope& envelope = datatype.envelope();
  num_integers = Count(envelope.integers.size());
  num_addresses = Count(envelope.addresses.size());
  num_large_counts = Count(envelope.large_counts.size());
  num_datatypes = Count(envelope.types.size());
  combiner = int(envelope.combiner);
  return {};
}

// Copies `values` to a user's array that has room for `room`.
template <typename T>
static Error copy_out(const std::vector<T>& values, Count room, T* array, const char* what) {
  Count n = Count(values.size());
  if (n > room)
    return Error(ErrorClass::arg, std::string("there are ") + std::to_string(n) + " " + what + ", but max_" + what +
                                      " is " + std::to_string(room));
  if (n > 0 && !array) return Error(ErrorClass::arg, std::string("array_of_") + what + " is a null pointer");
  for (Count i = 0; i < n; ++i) array[i] = values[size_t(i)];
  return {};
}

Error Type_get_contents_c(Call& call, Datatype& datatype, Count max_integers, Count max_addresses,
                          Count max_large_counts, Count max_datatypes, int* array_of_integers, Aint* array_of_addresses,
                          Count* array_of_large_counts, MPI_Datatype* array_of_datatypes) {
  const Envelope& envelope = datatype.envelope();
  if (datatype.is_named())
    return Error(ErrorClass::type, "the datatype " + datatype.name() + " is predefined: it has no contents");
  Count types = Count(envelope.types.size());
  if (types > max_datatypes)
    return Error(ErrorClass::arg, "there are " + std::to_string(types) + " datatypes, but max_datatypes is " +
                                      std::to_string(max_datatypes));
  if (types > 0 && !array_of_datatypes) return Error(ErrorClass::arg, "array_of_datatypes is a null pointer");
  if (Error error = copy_out(envelope.integers, max_integers, array_of_integers, "integers")) return error;
  if (Error error = copy_out(envelope.addresses, max_addresses, array_of_addresses, "addresses")) return error;
  if (Error error = copy_out(envelope.large_counts, max_large_counts, array_of_large_counts, "large_counts"))
    return error;
  for (Count i = 0; i < types; ++i) {
    // Predefined ones live as long as the World and their handles are never freed: no reference to give.
    Datatype* type = envelope.types[size_t(i)].get();
    call.give(&array_of_datatypes[i], type->is_predefined() ? type : construct::clone(*type).release());
  }
  return {};
}

Error Type_get_contents(Call& call, Datatype& datatype, int max_integers, int max_addresses, int max_datatypes,
                        int* array_of_integers, Aint* array_of_addresses, MPI_Datatype* array_of_datatypes) {
  if (!datatype.envelope().large_counts.empty()) return large_only();
  return Type_get_contents_c(call, datatype, max_integers, max_addresses, 0, max_datatypes, array_of_integers,
                             array_of_addresses, nullptr, array_of_datatypes);
}

// --- Predefined datatypes by their properties. They belong to the World; their handles hold no reference.

Error Type_create_f90_real(Call& call, int p, int r, Datatype*& newtype) {
  return call.world().predefined.types.f90_real(p, r, newtype);
}

Error Type_create_f90_complex(Call& call, int p, int r, Datatype*& newtype) {
  return call.world().predefined.types.f90_complex(p, r, newtype);
}

Error Type_create_f90_integer(Call& call, int r, Datatype*& newtype) {
  return call.world().predefined.types.f90_integer(r, newtype);
}

Error Type_get_value_index(Call& call, Datatype& value_type, Datatype& index_type, Datatype*& pair_type) {
  pair_type = call.world().predefined.types.value_index(value_type, index_type);
  return {};
}

Error Type_match_size(Call& call, int typeclass, int size, Datatype*& datatype) {
  TypeClass type_class;
  switch (typeclass) {
    case MPI_TYPECLASS_INTEGER: type_class = TypeClass::fortran_integer; break;
    case MPI_TYPECLASS_REAL: type_class = TypeClass::floating; break;
    case MPI_TYPECLASS_COMPLEX: type_class = TypeClass::complex; break;
    default:
      return Error(ErrorClass::arg, "argument 'typeclass' is " + std::to_string(typeclass) +
                                        "; pass MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL or MPI_TYPECLASS_COMPLEX");
  }
  datatype = call.world().predefined.types.match_size(type_class, size);
  if (datatype) return {};
  return Error(ErrorClass::arg, "no datatype of that class has " + std::to_string(size) + " bytes");
}

// --- Addresses and element counts.

Error Get_address(Call& call, const void* location, Aint& address) {
  address = reinterpret_cast<Aint>(location);
  return {};
}

Error Get_elements(Call& call, const MPI_Status* status, Datatype& datatype, Count& count) {
  count = signature::elements_in(datatype.signature(), status_bytes(*status));
  return {};
}

}  // namespace tern::capi::body

namespace tern::capi::raw {

// Addresses wrap like unsigned numbers; overflow is the user's, not undefined behaviour.
MPI_Aint Aint_add(MPI_Aint base, MPI_Aint disp) { return MPI_Aint(uintptr_t(base) + uintptr_t(disp)); }
MPI_Aint Aint_diff(MPI_Aint addr1, MPI_Aint addr2) { return MPI_Aint(uintptr_t(addr1) - uintptr_t(addr2)); }

}  // namespace tern::capi::raw
