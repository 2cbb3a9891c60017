// The commonest calls in one piece: contiguous data into or out of memory that this rank reaches, sums and exchanges of
// one integer there, accumulates by the operators' plain loops, a flush with nothing to wait for, the exclusive lock if
// it is free; and one brief record for a rank that answers in a cell (node_cells.h), at both of them. Each takes some
// tens of nanoseconds, so it is the number of steps that counts: all that can be wrong or different is asked at once,
// and whatever does not fit goes the long way, which finds out (operations.cc, synchronise.cc, service.cc).
#include <cstring>

#include "rma/window.h"

namespace tern::rma {

using wire::WindowAction;

namespace {

bool is_integer(const Kind& kind) {
  return (kind.type_class == TypeClass::c_integer || kind.type_class == TypeClass::fortran_integer) &&
         (kind.size == 4 || kind.size == 8);
}

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes == 8) std::memcpy(to, from, 8);  // one instruction instead of a call
  else std::memcpy(to, from, bytes);
}

/// A sum, an exchange, or nothing. `result`: null, or where the value before goes, which may be where the operand is.
template <typename Word>
void change(std::byte* there, OpId op, const void* operand, void* result) {
  Word now, brought = 0;
  std::memcpy(&now, there, sizeof now);
  if (op != OpId::no_op) std::memcpy(&brought, operand, sizeof brought);
  if (op == OpId::sum) brought += now;
  if (op != OpId::no_op) std::memcpy(there, &brought, sizeof brought);
  if (result) std::memcpy(result, &now, sizeof now);
}

/// `operands`: the new value, and the one to compare. `result` may be where they are.
template <typename Word>
void compare_and_swap(std::byte* there, const std::byte* operands, void* result) {
  Word brought, wanted, now;
  std::memcpy(&brought, operands, sizeof brought);
  std::memcpy(&wanted, operands + sizeof brought, sizeof wanted);
  std::memcpy(&now, there, sizeof now);
  if (now == wanted) std::memcpy(there, &brought, sizeof brought);
  std::memcpy(result, &now, sizeof now);
}

bool is_sum_or_exchange(OpId op) { return op == OpId::sum || op == OpId::replace || op == OpId::no_op; }

/// A sum or an exchange of one integer, which the origin's and the result's types fit.
bool is_of_one_integer(const Operation& o) {
  const Kind* kind = o.target_type->kind();
  if (o.target_count != 1 || !kind || !is_integer(*kind)) return false;
  if (o.action == WindowAction::get_accumulate && (o.result_type != o.target_type || o.result_count != 1)) return false;
  if (o.op == OpId::no_op) return true;
  return is_sum_or_exchange(o.op) && o.origin_type == o.target_type && o.origin_count == 1;
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

/// Of what comes as a brief record: believes nothing of it.
bool is_served_short(WindowAction action, OpId op, const Kind& kind, size_t bytes) {
  switch (action) {
    case WindowAction::put: return op != OpId::no_op;
    case WindowAction::get: return true;
    case WindowAction::accumulate:
    case WindowAction::get_accumulate: return is_integer(kind) && bytes == kind.size && is_sum_or_exchange(op);
    case WindowAction::compare_and_swap: return is_integer(kind) && bytes == kind.size && op != OpId::no_op;
  }
  return false;
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
         !__builtin_mul_overflow(o.displacement, to.disp_unit, &start) && !__builtin_add_overflow(start, bytes, &end) &&
         end <= to.size && bytes != 0;
}

}  // namespace

Target* Window::held(int rank) const {
  if (size_t(unsigned(rank)) >= targets_.size()) return nullptr;
  Target* target = targets_[size_t(rank)].get();
  return target && target->lock == LockState::held ? target : nullptr;
}

Target* Window::reached_before(int rank) const {
  if (size_t(unsigned(rank)) >= targets_.size()) return nullptr;
  Target* target = targets_[size_t(rank)].get();
  if (!target || !target->memory) return nullptr;
  return (target->lock == LockState::held || target->opened == epoch_) && target->is_settled() ? target : nullptr;
}

// False: nothing has happened.
bool Window::perform_short(const Operation& o) {
  Target* to = reached_before(o.target);
  if (!to) return cells_ && record_short(o);
  int64_t bytes = 0, start = 0;
  if (!lie_inside(o, *to, start, bytes)) return false;
  const Form form = form_of(o);
  std::byte* there = to->memory + start;
  if (form == Form::none || (form != Form::copy && goes_by_words(o))) return false;
  if (form == Form::loop && reinterpret_cast<uintptr_t>(there) % o.target_type->kind()->alignment != 0) return false;
  Counters& counters = environment_.counters();
  ++counters.rma_direct;
  if (o.action == WindowAction::put) {
    ++counters.rma_puts;
    copy_bytes(there, o.origin, size_t(bytes));
  } else if (o.action == WindowAction::get) {
    ++counters.rma_gets;
    copy_bytes(o.result, there, size_t(bytes));
  } else {
    ++counters.rma_accumulates;
    const AccumulateGuard alone(part_, to->place, part_place_);
    if (form == Form::loop) environment_.op(o.op).apply_basic(o.origin, there, o.target_count, *o.target_type->kind());
    else {
      void* result = o.action == WindowAction::get_accumulate ? o.result : nullptr;
      if (bytes == 8) change<uint64_t>(there, o.op, o.origin, result);
      else change<uint32_t>(there, o.op, o.origin, result);
    }
  }
  return true;
}

// The lock of a target that is wanted is asked for only when nothing can be wrong any more.
bool Window::record_short(const Operation& o) {
  if (size_t(unsigned(o.target)) >= targets_.size() || flavor_ == Flavor::dynamic) return false;
  Target* to = targets_[size_t(o.target)].get();
  if (!to || to->epoch_place < 0 || !to->is_settled()) return false;
  if (to->lock != LockState::held && !(to->lock == LockState::wanted && design_)) return false;
  int64_t bytes = 0, start = 0;
  if (!lie_inside(o, *to, start, bytes) || bytes > int64_t(wire::WindowBriefBody::kMaxBytes) ||
      start >= int64_t(wire::WindowBriefBody::kAddressEnd) || !o.target_type->is_named())
    return false;
  const bool compares = o.action == WindowAction::compare_and_swap;
  const Form form = compares ? Form::none : form_of(o);
  if (compares ? !is_compare_of_one_integer(o) : form != Form::copy && form != Form::integer) return false;
  if (form == Form::copy && !to->endpoint.peer_is_polling(true)) return false;  // by cross-memory attach
  if (to->lock == LockState::wanted) {
    ask_design(*to);
    if (to->lock != LockState::held) return false;
  }
  Counters& counters = environment_.counters();
  ++(o.action == WindowAction::put   ? counters.rma_puts
     : o.action == WindowAction::get ? counters.rma_gets
                                     : counters.rma_accumulates);
  const bool fetches = o.action != WindowAction::put && o.action != WindowAction::accumulate;
  const bool brings = o.action != WindowAction::get && o.op != OpId::no_op;
  uint32_t token = 0;
  if (fetches) {
    token = await_result(*to, size_t(bytes), nullptr);
    awaited_[token - 1].into = Cursor::bytes(o.result, size_t(bytes));
  }
  const size_t carried = !brings ? 0 : size_t(compares ? 2 * bytes : bytes);
  const size_t record_bytes = wire::kWindowBriefHead_bytes + wire::WindowWriter::padded(carried);
  // A program that waits for the end of each operation does so next: the target begins meanwhile.
  const bool at_once = to->alone && cell_takes(*to, record_bytes);
  std::byte* data = wire::write_window_brief(
      at_once ? cells_->room(to->epoch_place) : wire::WindowWriter(to->open).room(record_bytes), o.action,
      uint16_t(o.target_type->predefined_id()), token, {uint8_t(o.op), uint8_t(bytes), uint64_t(start)});
  if (brings) copy_bytes(data, o.origin, size_t(bytes));
  if (compares) copy_bytes(data + bytes, o.compare, size_t(bytes));
  to->begun = 1;  // all before it is over
  to->unconfirmed = true;
  if (at_once) ask_by_cell(*to, record_bytes, begin_confirmation(*to));
  return true;
}

// The other side of record_short: one brief record that came alone in a cell. `room` is the same memory as `records`.
bool Window::serve_short(std::span<const std::byte> records, uint32_t confirm, std::span<std::byte> room,
                         size_t& answered) {
  wire::WindowReader in(records);
  wire::WindowRecord head;
  wire::WindowBriefBody body;
  if (flavor_ == Flavor::dynamic || !in.next(head) || head.code != wire::WindowCode::brief || !in.brief(body))
    return false;
  const Datatype* type = environment_.types().find(head.slot);
  const Kind* kind = type ? type->kind() : nullptr;
  const size_t bytes = body.bytes;
  // Nearly always one element: no division.
  if (!kind || kind->size != kind->extent || bytes == 0 || (bytes != kind->size && bytes % kind->size != 0))
    return false;
  if (int64_t(body.address + bytes) > size_) return false;
  const auto action = WindowAction(head.flag);
  const auto op = OpId(body.op);
  if (!is_served_short(action, op, *kind, bytes)) return false;
  const bool compares = action == WindowAction::compare_and_swap;
  const bool brings = action != WindowAction::get && op != OpId::no_op;
  std::span<const std::byte> data;
  if (brings && !in.data(compares ? 2 * bytes : bytes, data)) return false;
  const bool fetches = action != WindowAction::put && action != WindowAction::accumulate;
  const size_t result_bytes = fetches ? wire::kWindowResultHead_bytes + wire::WindowWriter::padded(bytes) : 0;
  if (!in.rest().empty() || result_bytes + sizeof head > room.size()) return false;

  std::byte* there = base_ + body.address;
  std::byte* result = room.data() + wire::kWindowResultHead_bytes;
  if (action == WindowAction::put) {
    copy_bytes(there, data.data(), bytes);
  } else if (action == WindowAction::get) {
    copy_bytes(result, there, bytes);
  } else {
    const AccumulateGuard alone(part_, part_place_, part_place_);
    if (compares) {
      if (bytes == 8) compare_and_swap<uint64_t>(there, data.data(), result);
      else compare_and_swap<uint32_t>(there, data.data(), result);
    } else if (bytes == 8) {
      change<uint64_t>(there, op, data.data(), fetches ? result : nullptr);
    } else {
      change<uint32_t>(there, op, data.data(), fetches ? result : nullptr);
    }
  }
  if (fetches) wire::write_window_result_head(room.data(), head.number, bytes);
  const wire::WindowRecord ack{wire::WindowCode::ack, 0, 0, confirm};
  std::memcpy(room.data() + result_bytes, &ack, sizeof ack);
  answered = result_bytes + sizeof ack;
  return true;
}

// Of memory that this rank reaches.
bool Window::lock_short(int type, int rank, int assertions) {
  if (type != kLockExclusive || assertions != 0 || !design_ || size_t(unsigned(rank)) >= targets_.size()) return false;
  Target* to = targets_[size_t(rank)].get();
  if (!to || !to->memory || to->lock != LockState::none || !to->is_settled()) return false;
  if (lock_all_ || started_ || fence_ == Fence::used || !design_->take_free(rank)) return false;
  ++environment_.counters().rma_locks;
  environment_.add_lock();
  fence_ = Fence::none;
  to->unchecked = false;
  to->exclusive = to->lock_counts = true;
  to->lock = LockState::held;
  ++locked_;
  return true;
}

bool Window::unlock_short(int rank) {
  Target* to = held(rank);
  if (!to || !to->is_settled() || lock_all_ || to->unchecked || !design_) return false;
  look();
  design_->release(rank);
  wake_design();
  end_lock(*to);
  --locked_;
  return true;
}

}  // namespace tern::rma
