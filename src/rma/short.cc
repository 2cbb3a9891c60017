// The commonest calls in one piece: contiguous data into or out of memory that this rank reaches, sums and exchanges of
// one integer there, accumulates by the operators' plain loops, a flush with nothing to wait for, the exclusive lock if
// it is free; and one brief record for a rank that answers in a cell (node_cells.h). Each takes some tens of
// nanoseconds, so it is the number of steps that counts: all that can be wrong or different is asked at once, and
// whatever does not fit goes the long way, which finds out (operations.cc, synchronise.cc).
#include <cstring>

#include "rma/window.h"

namespace tern::rma {

using wire::WindowAction;

namespace {

bool is_integer(const Kind& kind) {
  return (kind.type_class == TypeClass::c_integer || kind.type_class == TypeClass::fortran_integer) &&
         (kind.size == 4 || kind.size == 8);
}

void copy(void* to, const void* from, size_t bytes) {
  if (bytes == 8) std::memcpy(to, from, 8);  // one instruction instead of a call
  else std::memcpy(to, from, bytes);
}

template <typename Word>
void change(std::byte* there, const Operation& o) {
  Word now, brought = 0;
  std::memcpy(&now, there, sizeof now);
  if (o.op != OpId::no_op) std::memcpy(&brought, o.origin, sizeof brought);
  if (o.op == OpId::sum) brought += now;
  if (o.op != OpId::no_op) std::memcpy(there, &brought, sizeof brought);
  if (o.action == WindowAction::get_accumulate) std::memcpy(o.result, &now, sizeof now);
}

/// A sum or an exchange of one integer, which the origin's and the result's types fit.
bool is_of_one_integer(const Operation& o) {
  const Kind* kind = o.target_type->kind();
  if (o.target_count != 1 || !kind || !is_integer(*kind)) return false;
  if (o.action == WindowAction::get_accumulate && (o.result_type != o.target_type || o.result_count != 1)) return false;
  if (o.op == OpId::no_op) return true;
  return (o.op == OpId::sum || o.op == OpId::replace) && o.origin_type == o.target_type && o.origin_count == 1;
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
         !__builtin_mul_overflow(o.displacement, to.disp_unit, &start) && !__builtin_add_overflow(start, bytes, &end) &&
         end <= to.size && bytes != 0;
}

}  // namespace

Target* Window::settled(int rank) const {
  if (size_t(unsigned(rank)) >= targets_.size()) return nullptr;
  Target* target = targets_[size_t(rank)].get();
  return target && target->lock == LockState::held && target->is_settled() ? target : nullptr;
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
    copy(there, o.origin, size_t(bytes));
  } else if (o.action == WindowAction::get) {
    ++counters.rma_gets;
    copy(o.result, there, size_t(bytes));
  } else {
    ++counters.rma_accumulates;
    const AccumulateGuard alone(part_, to->place, part_place_);
    if (form == Form::loop) environment_.op(o.op).apply_basic(o.origin, there, o.target_count, *o.target_type->kind());
    else if (bytes == 8) change<uint64_t>(there, o);
    else change<uint32_t>(there, o);
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
  const uint32_t token = fetches ? await_result(o, *to, 0, size_t(bytes), nullptr) : 0;
  const wire::WindowBriefBody body{uint8_t(o.op), uint8_t(bytes), uint64_t(start)};
  std::byte* data = wire::WindowWriter(to->open).brief(o.action, uint16_t(o.target_type->predefined_id()), token, body,
                                                       brings ? size_t(compares ? 2 * bytes : bytes) : 0);
  if (brings) copy(data, o.origin, size_t(bytes));
  if (compares) copy(data + bytes, o.compare, size_t(bytes));
  to->unconfirmed = true;
  return true;
}

// Of memory that this rank reaches.
bool Window::lock_short(int type, int rank, int assertions) {
  if (type != kLockExclusive || assertions != 0 || !design_ || size_t(unsigned(rank)) >= targets_.size()) return false;
  Target* to = targets_[size_t(rank)].get();
  if (!to || !to->memory || to->lock != LockState::none || !to->is_settled()) return false;
  if (no_locks_ || lock_all_ || started_ || fence_ == Fence::used || !design_->take_free(rank)) return false;
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
  Target* to = settled(rank);
  if (!to || lock_all_ || to->unchecked || !design_) return false;
  look();
  design_->release(rank);
  wake_design();
  end_lock(*to);
  --locked_;
  return true;
}

}  // namespace tern::rma
