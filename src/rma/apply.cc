#include "rma/apply.h"

#include "base/assert.h"

namespace tern::rma {

namespace {

// Of the copies that are combined where the plain loops cannot run on the data themselves.
constexpr size_t kChunkBytes = 4096;

bool is_aligned_for(const void* address, const Kind& kind) {
  return reinterpret_cast<uintptr_t>(address) % kind.alignment == 0;
}

void combine_elements(const Op& op, Cursor from, Cursor to, size_t bytes, const Kind& kind) {
  const bool plain = from.is_contiguous() && to.is_contiguous() && kind.size == kind.extent &&
                     is_aligned_for(from.contiguous_data(), kind) && is_aligned_for(to.contiguous_data(), kind);
  if (plain) return op.apply_basic(from.contiguous_data(), to.contiguous_data(), Count(bytes / kind.size), kind);
  alignas(64) std::byte chunk[kChunkBytes];
  const size_t whole = kChunkBytes / kind.size * kind.size;
  from.truncate(bytes);
  while (size_t packed = from.pack(chunk, whole)) op.apply_packed(chunk, to, Count(packed / kind.size), kind);
}

}  // namespace

uint64_t Apply::word(std::byte* there, AtomicOperation::Kind kind, uint64_t operand, uint64_t compare) {
  std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(there));
  switch (kind) {
    case AtomicOperation::Kind::fetch_add: return word.fetch_add(operand);
    case AtomicOperation::Kind::swap: return word.exchange(operand);
    case AtomicOperation::Kind::compare_swap: break;
  }
  uint64_t before = compare;
  word.compare_exchange_strong(before, operand);
  return before;
}

void Apply::copy(Cursor from, Cursor to, size_t bytes) {
  from.truncate(bytes);
  if (from.is_contiguous()) {
    to.unpack(from.contiguous_data(), from.remaining());
    return;
  }
  if (to.is_contiguous()) {
    from.pack(to.contiguous_data(), from.remaining());
    return;
  }
  iovec pieces[16];
  size_t filled_bytes = 0;
  while (size_t filled = from.segments(pieces, from.remaining(), filled_bytes)) {
    for (size_t i = 0; i < filled; ++i) to.unpack(static_cast<const std::byte*>(pieces[i].iov_base), pieces[i].iov_len);
  }
}

void Apply::combine(OpId op, const Cursor& from, const Cursor& there, size_t bytes, const Kind* kind) const {
  if (op == OpId::no_op || bytes == 0) return;
  if (op == OpId::replace) return copy(from, there, bytes);
  TERN_ASSERT(kind && op != OpId::none);
  combine_elements(environment_.op(op), from, there, bytes, *kind);
}

void Apply::swap_if_equal(Cursor there, size_t bytes, const void* brought, const void* compared) {
  TERN_ASSERT(bytes <= kMaxComparedBytes);
  std::byte now[kMaxComparedBytes];
  Cursor reader = there;
  reader.pack(now, bytes);
  if (std::memcmp(now, compared, bytes) == 0) there.unpack(static_cast<const std::byte*>(brought), bytes);
}

}  // namespace tern::rma
