// The commonest operations in one piece: contiguous data into or out of memory that this rank reaches, sums and
// exchanges of one integer there, accumulates by the operators' plain loops; and one brief record for a rank that
// answers in a cell (node_cells.h). Each takes some tens of nanoseconds, so it is the number of steps that counts: all
// that can be wrong or different is asked at once, and whatever does not fit goes the long way, which finds out
// (operations.cc).
#include "rma/short.h"

#include <algorithm>

#include "base/assert.h"
#include "rma/operations.h"

namespace tern::rma {

using wire::WindowAction;

namespace {

/// A sum or an exchange of one integer, which the origin's and the result's types fit.
bool is_of_one_integer(const Operation& o) {
  const Kind* kind = o.target_type->kind();
  if (o.target_count != 1 || !kind || !is_integer(*kind)) return false;
  if (o.action == WindowAction::get_accumulate && (o.result_type != o.target_type || o.result_count != 1)) return false;
  if (o.op == OpId::no_op) return true;
  return Apply::is_sum_or_exchange(o.op) && o.origin_type == o.target_type && o.origin_count == 1;
}

/// An accumulate by the operator's plain loop over elements of a predefined type.
bool is_plain_loop(const Operation& o) {
  const Kind* kind = o.target_type->kind();
  return o.action == WindowAction::accumulate && o.origin_type == o.target_type && o.origin_count == o.target_count &&
         kind && kind->size == kind->extent && o.op != OpId::replace && o.op != OpId::no_op &&
         reinterpret_cast<uintptr_t>(o.origin) % kind->alignment == 0 && op_takes(o.op, *kind);
}

bool is_compare_of_one_integer(const Operation& o) {
  const Kind* kind = o.target_type->kind();
  return o.target_count == 1 && kind && is_integer(*kind) && o.origin_type == o.target_type &&
         o.result_type == o.target_type;
}

enum class Form { none, copy, integer, loop };

/// What a short operation does; none: it is not one. Compare-and-swap is short the long way.
Form form_of(const Operation& o) {
  switch (o.action) {
    case WindowAction::put:
      return o.origin_type == o.target_type && o.origin_count == o.target_count ? Form::copy : Form::none;
    case WindowAction::get:
      return o.result_type == o.target_type && o.result_count == o.target_count ? Form::copy : Form::none;
    case WindowAction::accumulate:
    case WindowAction::get_accumulate:
      return is_of_one_integer(o) ? Form::integer : is_plain_loop(o) ? Form::loop : Form::none;
    default: return Form::none;
  }
}

/// Where contiguous elements lie in the target's memory. False: not all inside, or none.
bool lie_inside(const Operation& o, const Target& to, int64_t& start, int64_t& bytes) {
  if (!o.target_type->is_contiguous() || o.displacement < 0 || o.target_count < 0) return false;
  int64_t end = 0;
  return !__builtin_mul_overflow(o.target_count, o.target_type->size(), &bytes) &&
         !__builtin_mul_overflow(o.displacement, to.memory.disp_unit, &start) &&
         !__builtin_add_overflow(start, bytes, &end) && end <= to.memory.size && bytes != 0;
}

/// A put or a get of bytes that lie together.
void copy(const Operation& o, std::byte* there, int64_t bytes) {
  if (o.is_put()) Apply::copy_bytes(there, o.origin, size_t(bytes));
  else Apply::copy_bytes(o.result, there, size_t(bytes));
}

}  // namespace

// The target whose memory this rank reaches, and to which the present epoch allows operations, as far as can be told
// quickly; null: find out.
Target* Operations::reached_before(int rank) const {
  Target* target = known(rank);
  if (!target || !target->memory.start) return nullptr;
  return (target->lock.state == LockState::held || target->epoch.opened == epoch_.number) && target->is_settled()
             ? target
             : nullptr;
}

// False: nothing has happened.
bool Operations::perform_short(const Operation& o) {
  Target* to = reached_before(o.target);
  if (!to) return cell_.cells() && record_short(o);
  int64_t bytes = 0, start = 0;
  if (!lie_inside(o, *to, start, bytes)) return false;
  const Form form = form_of(o);
  std::byte* there = to->memory.start + start;
  if (form == Form::none || (form != Form::copy && words_.takes(*to, o))) return false;
  if (form == Form::loop && reinterpret_cast<uintptr_t>(there) % o.target_type->kind()->alignment != 0) return false;
  Counters& counters = context_.counters();
  ++counters.rma_direct;
  TERN_DEBUG_ASSERT(start >= 0 && start + bytes <= to->memory.size);
  if (form == Form::copy) {
    ++(o.is_put() ? counters.rma_puts : counters.rma_gets);
    copy(o, there, bytes);
    gate_.count_short();
  } else {
    ++counters.rma_accumulates;
    void* result = o.action == WindowAction::get_accumulate ? o.result : nullptr;
    if (form == Form::loop)
      apply_.loop(to->memory.place, o.op, o.origin, there, o.target_count, *o.target_type->kind());
    else apply_.integer(to->memory.place, there, size_t(bytes), o.op, o.origin, result);
  }
  return true;
}

bool Operations::move_shortly(const Operation& o) const {
  const Target* to = reached_before(o.target);
  int64_t bytes = 0, start = 0;
  if (!to || !lie_inside(o, *to, start, bytes) || form_of(o) != Form::copy) return false;
  TERN_DEBUG_ASSERT(start >= 0 && start + bytes <= to->memory.size);
  copy(o, to->memory.start + start, bytes);
  return true;
}

bool Operations::is_flushed(int rank) const {
  const Target* to = held(rank);
  return to && to->memory.start && to->is_settled();
}

bool Operations::may_be_read() const {
  return std::all_of(targets_.begin(), targets_.end(), [](const std::unique_ptr<Target>& to) {
    if (!to || !to->memory.start) return true;
    return to->is_settled() && (to->lock.state == LockState::held || to->lock.state == LockState::none);
  });
}

// The lock of a target that is wanted is asked for only when nothing can be wrong any more.
bool Operations::record_short(const Operation& o) {
  Target* to = known(o.target);
  if (!to || context_.flavor == Flavor::dynamic || to->epoch.place < 0 || !to->is_settled()) return false;
  if (to->lock.state != LockState::held && !(to->lock.state == LockState::wanted && locks_.by_words())) return false;
  int64_t bytes = 0, start = 0;
  if (!lie_inside(o, *to, start, bytes) || bytes > int64_t(wire::WindowBriefBody::kMaxBytes) ||
      start >= int64_t(wire::WindowBriefBody::kAddressEnd) || !o.target_type->is_named())
    return false;
  const bool compares = o.action == WindowAction::compare_and_swap;
  const Form form = compares ? Form::none : form_of(o);
  if (compares ? !is_compare_of_one_integer(o) : form != Form::copy && form != Form::integer) return false;
  if (form == Form::copy && !to->endpoint.peer_is_polling(true)) return false;  // by cross-memory attach
  if (to->lock.state == LockState::wanted) {
    locks_.ask(*to);
    if (to->lock.state != LockState::held) return false;
  }
  write_short(o, *to, start, size_t(bytes));
  return true;
}

// A program that waits for the end of each operation does so next: the target begins meanwhile, in its cell.
void Operations::write_short(const Operation& o, Target& to, int64_t start, size_t bytes) {
  count(o);
  const bool compares = o.action == WindowAction::compare_and_swap;
  uint32_t token = 0;
  if (o.fetches()) {
    token = results_.await(to, bytes, nullptr);
    results_.at(token).into = Cursor::bytes(o.result, bytes);
  }
  const size_t carried = !o.brings() ? 0 : compares ? 2 * bytes : bytes;
  const size_t record_bytes = wire::kWindowBriefHeadBytes + wire::WindowWriter::padded(carried);
  const bool at_once = to.flight.alone && cell_.takes(to, record_bytes);
  std::byte* data = wire::write_window_brief(
      at_once ? cell_.room(to) : wire::WindowWriter(to.out.open).room(record_bytes), o.action,
      uint16_t(o.target_type->predefined_id()), token, {uint8_t(o.op), uint8_t(bytes), uint64_t(start)});
  if (o.brings()) Apply::copy_bytes(data, o.origin, bytes);
  if (compares) Apply::copy_bytes(data + bytes, o.compare, bytes);
  to.flight.begun = 1;  // all before it is over
  TERN_DEBUG_ASSERT(to.lock.state == LockState::held && bytes != 0);
  to.flight.unconfirmed = true;
  if (at_once) cell_.begin(to, record_bytes, records_.begin_confirmation(to));
}

}  // namespace tern::rma
