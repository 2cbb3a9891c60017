#include "datatype/op.h"

#include <algorithm>
#include <array>

#include "datatype/op_loops.h"

namespace tern {
namespace {

// Whether a predefined operator takes a class of types (6.9.2, 6.9.4).
constexpr bool takes(OpId id, TypeClass c) {
  const bool c_integer = c == TypeClass::c_integer;
  const bool integer = c_integer || c == TypeClass::fortran_integer || c == TypeClass::multi_language;
  switch (id) {
    case OpId::max:
    case OpId::min: return integer || c == TypeClass::floating;
    case OpId::sum:
    case OpId::prod: return integer || c == TypeClass::floating || c == TypeClass::complex;
    case OpId::land:
    case OpId::lor:
    case OpId::lxor:
      // The table of 6.9.2 has no multi-language types here; they are C integers all the same, and other
      // libraries take them.
      return c_integer || c == TypeClass::multi_language || c == TypeClass::logical;
    case OpId::band:
    case OpId::bor:
    case OpId::bxor: return integer || c == TypeClass::byte;
    case OpId::minloc:
    case OpId::maxloc: return c == TypeClass::pair;
    case OpId::replace:
    case OpId::no_op:
    case OpId::none: return true;
  }
  return false;
}

// The same as a bit for each class, by the operator's number.
constexpr int kOps = PredefinedOps::kLast + 1;
constexpr auto kClassesOf = [] {
  std::array<uint32_t, kOps> classes{};
  for (int id = 0; id < kOps; ++id)
    for (uint32_t c = 0; c <= uint32_t(TypeClass::pair); ++c)
      classes[size_t(id)] |= uint32_t{takes(OpId(id), TypeClass(c))} << c;
  return classes;
}();

op_loops::Loop loop_for(OpId id, const Kind& kind) {
  if (!op_takes(id, kind)) return nullptr;
  if (kind.type_class == TypeClass::pair) return op_loops::pair_loop(id, kind.rep, kind.index_rep);
  if (kind.type_class == TypeClass::complex) return op_loops::complex_loop(id, kind.rep);
  op_loops::Loop number = op_loops::number_loop(id, kind.rep);
  return number ? number : op_loops::integer_loop(id, kind.rep);
}

// Lifts packed pairs to the form they have in an array, and back.
void spread(const Kind& kind, const std::byte* packed, std::byte* array, size_t n) {
  size_t value = rep_size(kind.rep), index = rep_size(kind.index_rep);
  for (size_t i = 0; i < n; ++i, packed += kind.size, array += kind.extent) {
    std::memcpy(array, packed, value);
    std::memcpy(array + kind.index_offset, packed + value, index);
  }
}

void gather(const Kind& kind, const std::byte* array, std::byte* packed, size_t n) {
  size_t value = rep_size(kind.rep), index = rep_size(kind.index_rep);
  for (size_t i = 0; i < n; ++i, packed += kind.size, array += kind.extent) {
    std::memcpy(packed, array, value);
    std::memcpy(packed + value, array + kind.index_offset, index);
  }
}

constexpr size_t kChunkBytes =
    4096;  // of the aligned copies that apply_packed works on; both fit the first-level cache

}  // namespace

const char* Op::name() const {
  switch (id_) {
    case OpId::none: return "user-defined operator";
    case OpId::sum: return "MPI_SUM";
    case OpId::min: return "MPI_MIN";
    case OpId::max: return "MPI_MAX";
    case OpId::prod: return "MPI_PROD";
    case OpId::band: return "MPI_BAND";
    case OpId::bor: return "MPI_BOR";
    case OpId::bxor: return "MPI_BXOR";
    case OpId::land: return "MPI_LAND";
    case OpId::lor: return "MPI_LOR";
    case OpId::lxor: return "MPI_LXOR";
    case OpId::minloc: return "MPI_MINLOC";
    case OpId::maxloc: return "MPI_MAXLOC";
    case OpId::replace: return "MPI_REPLACE";
    case OpId::no_op: return "MPI_NO_OP";
  }
  return "unknown operator";
}

bool op_takes(OpId id, const Kind& kind) {
  // MPI_CHAR is for text, and 6.9.2 takes it out of reductions. MPICH and Open MPI compute with it as C does, and
  // programs count on that (OSU's benchmarks reduce MPI_CHAR unless told otherwise): so it is one more C integer here.
  const TypeClass c = kind.id == type_id::kChar ? TypeClass::c_integer : kind.type_class;
  return uint32_t(id) < uint32_t(kOps) && (kClassesOf[size_t(id)] >> uint32_t(c) & 1);
}

bool op_goes_beyond(OpId id, const Kind& kind) {
  const bool logical = id == OpId::land || id == OpId::lor || id == OpId::lxor;
  const bool reduces = id != OpId::replace && id != OpId::no_op;
  return op_takes(id, kind) && ((reduces && kind.id == type_id::kChar) ||
                                (logical && kind.type_class == TypeClass::multi_language));
}

bool Op::valid_for(const Datatype& type) const {
  if (id_ == OpId::none) return true;
  if (id_ == OpId::replace || id_ == OpId::no_op) return false;
  return type.kind() && op_takes(id_, *type.kind());
}

bool Op::valid_for_accumulate(const Datatype& type) const {
  if (id_ == OpId::none) return false;
  if (id_ == OpId::replace || id_ == OpId::no_op) return true;
  return type.basic_kind() && op_takes(id_, *type.basic_kind());
}

void Op::apply_basic(const void* in, void* inout, Count n, const Kind& kind) const {
  op_loops::Loop loop = loop_for(id_, kind);
  TERN_ASSERT(loop);
  loop(in, inout, n);
}

void Op::apply(const void* in, void* inout, Count n, const Datatype& type) const {
  if (n <= 0 || id_ == OpId::no_op) return;
  if (id_ == OpId::none) return function_(in, inout, n, type);
  if (id_ == OpId::replace) {
    Cursor from(const_cast<void*>(in), n, type), to(inout, n, type);
    iovec pieces[16];
    size_t bytes = 0;
    while (size_t filled = from.segments(pieces, from.remaining(), bytes))
      for (size_t i = 0; i < filled; ++i)
        to.unpack(static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len);
    return;
  }
  if (const Kind* kind = type.kind()) return apply_basic(in, inout, n, *kind);
  const Kind* kind = type.basic_kind();
  TERN_ASSERT(kind);
  if (type.is_contiguous()) return apply_basic(in, inout, n * type.basic_count(), *kind);
  Cursor from(const_cast<void*>(in), n, type), to(inout, n, type);
  alignas(64) std::byte chunk[kChunkBytes];
  size_t each = kind->size, whole = kChunkBytes / each * each;
  while (size_t bytes = from.pack(chunk, whole)) apply_packed(chunk, to, Count(bytes / each), *kind);
}

void Op::apply_packed(const std::byte* in, Cursor& target, Count n, const Kind& kind) const {
  TERN_ASSERT(id_ != OpId::none);
  size_t each = kind.size, total = size_t(n) * each;
  TERN_ASSERT(total <= target.remaining());
  if (id_ == OpId::no_op) return target.skip(total);
  if (id_ == OpId::replace) {
    target.unpack(in, total);
    return;
  }
  op_loops::Loop loop = loop_for(id_, kind);
  TERN_ASSERT(loop);
  bool padded = kind.type_class == TypeClass::pair && kind.size != kind.extent;
  alignas(64) std::byte mine[kChunkBytes], theirs[kChunkBytes], packed[kChunkBytes];
  size_t at_once = kChunkBytes / std::max<size_t>(kind.extent, each);
  for (size_t left = size_t(n); left > 0;) {
    size_t elements = std::min(at_once, left), bytes = elements * each;
    Cursor writer = target;
    target.pack(packed, bytes);
    if (padded) {
      spread(kind, in, theirs, elements);
      spread(kind, packed, mine, elements);
      loop(theirs, mine, Count(elements));
      gather(kind, mine, packed, elements);
    } else {
      std::memcpy(theirs, in, bytes);  // for alignment
      loop(theirs, packed, Count(elements));
    }
    writer.unpack(packed, bytes);
    in += bytes;
    left -= elements;
  }
}

Op* PredefinedOps::find(int id) {
  if (id <= kFirst || id > kLast) return nullptr;
  Ref<Op>& slot = ops_[size_t(id - kFirst)];
  if (slot) return slot.get();
  switch (OpId(id)) {
    case OpId::sum:
    case OpId::min:
    case OpId::max:
    case OpId::prod:
    case OpId::band:
    case OpId::bor:
    case OpId::bxor:
    case OpId::land:
    case OpId::lor:
    case OpId::lxor:
    case OpId::minloc:
    case OpId::maxloc:
    case OpId::replace:
    case OpId::no_op: slot = Ref<Op>::adopt(new Op(OpId(id))); return slot.get();
    default: return nullptr;
  }
}

}  // namespace tern
