// Operations on memory that this rank can reach itself: its own, and that of ranks of its node in windows that lie in
// shared memory. Stores and loads; accumulates of several ranks exclude each other by a word of the target's Control,
// so that every type and operator is atomic, and long ones run at the speed of the plain loops.
#include <algorithm>

#include "rma/window.h"

namespace tern::rma {

using wire::WindowAction;

namespace {

/// Copies the next `bytes` of one to the other.
void copy(Cursor from, Cursor to, size_t bytes) {
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

// Of the copies that are combined where the plain loops cannot run on the data themselves.
constexpr size_t kChunk_bytes = 4096;

bool is_aligned(const void* address, const Kind& kind) {
  return reinterpret_cast<uintptr_t>(address) % kind.alignment == 0;
}

}  // namespace

void combine(const Op& op, Cursor from, Cursor to, size_t bytes, const Kind& kind) {
  const bool plain = from.is_contiguous() && to.is_contiguous() && kind.size == kind.extent &&
                     is_aligned(from.contiguous_data(), kind) && is_aligned(to.contiguous_data(), kind);
  if (plain) return op.apply_basic(from.contiguous_data(), to.contiguous_data(), Count(bytes / kind.size), kind);
  alignas(64) std::byte chunk[kChunk_bytes];
  const size_t whole = kChunk_bytes / kind.size * kind.size;
  from.truncate(bytes);
  while (size_t packed = from.pack(chunk, whole)) op.apply_packed(chunk, to, Count(packed / kind.size), kind);
}

// Null: operations on this rank go by messages.
std::byte* Window::reachable(int rank) const {
  if (rank == comm_->rank() && flavor_ != Flavor::dynamic) return base_;
  const int place = shares_data_ ? part_.place_of(rank) : -1;
  return place < 0 ? nullptr : part_.data(place);
}

AccumulateGuard Window::alone_with(int rank) const {
  return AccumulateGuard(part_, part_.empty() ? -1 : part_.place_of(rank), part_place_);
}

// Only what the epoch allows now, and what would not pass operations that are still on their way by message.
bool Window::goes_directly(const Target& target) const {
  return reachable(target.rank) && gate_open(target) && !target.unconfirmed && target.pending == 0 &&
         !target.has_records();
}

void Window::perform_directly(const Operation& o) {
  ++environment_.counters().rma_direct;
  std::byte* start = reachable(o.target) + o.displacement * disp_units_.of(o.target);
  const Cursor there(start, o.target_count, *o.target_type);
  if (o.action == WindowAction::put)
    return copy(Cursor(const_cast<void*>(o.origin), o.origin_count, *o.origin_type), there,
                bytes_of(o.origin_count, o.origin_type));
  if (o.action == WindowAction::get)
    return copy(there, Cursor(o.result, o.result_count, *o.result_type), bytes_of(o.target_count, o.target_type));
  const AccumulateGuard alone = alone_with(o.target);
  if (o.action == WindowAction::compare_and_swap) {
    const size_t bytes = size_t(o.target_type->size());
    const bool equal = std::equal(start, start + bytes, static_cast<const std::byte*>(o.compare));
    std::copy_n(start, bytes, static_cast<std::byte*>(o.result));
    if (equal) std::copy_n(static_cast<const std::byte*>(o.origin), bytes, start);
    return;
  }
  if (o.action == WindowAction::get_accumulate) {
    const size_t wanted =
        o.op == OpId::no_op ? bytes_of(o.target_count, o.target_type) : bytes_of(o.origin_count, o.origin_type);
    copy(there, Cursor(o.result, o.result_count, *o.result_type), wanted);
  }
  if (o.op == OpId::no_op) return;
  const Cursor from(const_cast<void*>(o.origin), o.origin_count, *o.origin_type);
  const size_t bytes = bytes_of(o.origin_count, o.origin_type);
  if (bytes == 0) return;
  if (o.op == OpId::replace) return copy(from, there, bytes);
  combine(environment_.op(o.op), from, there, bytes, *o.target_type->basic_kind());
}

}  // namespace tern::rma
