// Synchronisation (MPI 5.0, 12.5): fence; post, start, complete, wait; lock, unlock; flush.
#include <algorithm>
#include <atomic>

#include "coll/collectives.h"
#include "rma/window.h"

namespace tern::rma {

// --- Errors.

Error Window::sync_error(const std::string& text) const {
  return Error(ErrorClass::rma_sync, describe() + ": " + text);
}

Error Window::check_rank(int rank) const {
  if (rank >= 0 && rank < comm_->size()) return {};
  return Error(ErrorClass::rank, describe() + ": rank " + std::to_string(rank) + " is not between 0 and " +
                                     std::to_string(comm_->size() - 1));
}

// An epoch of another kind is open.
Error Window::not_idle(const char* what) const {
  const std::string before = std::string("it cannot be ") + what + " before ";
  if (lock_all_) return sync_error(before + "MPI_Win_unlock_all");
  if (locked_ != 0) return sync_error(before + "MPI_Win_unlock of every target that is locked");
  if (started_) return sync_error(before + "MPI_Win_complete");
  if (posted_) return sync_error(before + "MPI_Win_wait");
  return {};
}

Error Window::not_passive(int rank) const {
  if (rank != kProcNull) {
    if (Error error = check_rank(rank)) return error;
  }
  if (lock_all_) return {};
  const Target* one = targets_.empty() || rank < 0 ? nullptr : targets_[size_t(rank)].get();
  if (one && one->lock != LockState::none) return {};
  return sync_error("rank " + std::to_string(rank) + " is not locked. Call MPI_Win_lock or MPI_Win_lock_all first.");
}

Error Window::check_assertions(int assertions, int allowed) const {
  if ((assertions & ~allowed) == 0) return {};
  return Error(ErrorClass::assertion, "argument 'assert' is " + std::to_string(assertions) +
                                          ", which has bits that mean nothing in this call");
}

// Of the operations that the synchronisation has ended.
Error Window::take_error(Target& target) {
  Error error = std::move(target.error);
  if (!error && target.lock == LockState::refused) error = why_dropped(target);
  if (!error && target.lost) error = environment_.endpoints().loss_of(target.endpoint.peer);
  return error;
}

Error Window::take_errors() {
  Error first;
  for (auto& target : targets_) {
    if (!target || !target->error) continue;
    Error error = std::move(target->error);
    if (!first) first = std::move(error);
  }
  return first;
}

// --- Waiting for operations.

// Asks for the confirmation of what was begun, unless that is on its way.
void Window::conclude(Target& target) {
  target.alone = target.begun == 1;
  target.begun = 0;
  if (target.unconfirmed || (target.pending != 0 && target.confirmed == target.asked)) ask_confirmation(target);
}

// A confirmation stands for everything before it; results come before it. What other threads begin meanwhile is theirs.
Error Window::finish(Target& target) {
  if (target.transfers != 0) pump(target, true);
  wait_for_transfers(target);
  conclude(target);
  const uint32_t number = target.asked;
  if (target.has_confirmed(number)) look();
  else wait_for_answers([&] { return target.has_confirmed(number); });
  return take_error(target);
}

// Those of all targets at the same time.
void Window::finish_transfers() {
  for (auto& target : targets_) {
    if (target && target->transfers != 0) pump(*target, true);
  }
  for (auto& target : targets_) {
    if (target) wait_for_transfers(*target);
  }
}

Error Window::finish_all() {
  finish_transfers();
  std::vector<std::pair<Target*, uint32_t>> asked;
  for (auto& target : targets_) {
    if (!target) continue;
    conclude(*target);
    if (!target->has_confirmed(target->asked)) asked.push_back({target.get(), target->asked});
  }
  if (asked.empty()) {
    look();
    return take_errors();
  }
  wait_for_answers([&] {
    return std::all_of(asked.begin(), asked.end(), [](auto& one) { return one.first->has_confirmed(one.second); });
  });
  return take_errors();
}

// What is in records was copied from the user's memory.
Error Window::finish_locally(Target& target) {
  pump(target, true);
  if (target.pending != 0 || target.transfers != 0) return finish(target);
  look();
  return take_error(target);
}

Error Window::barrier() {
  if (comm_->size() == 1) return {};
  Request* none = nullptr;
  return collective(*comm_, tern::Operation::barrier, Operands(), Mode::blocking, none);
}

// The blocking barrier of a node looks at memory for some microseconds before it polls. Others may need this rank's
// polls sooner: a fence waits for their operations.
Error Window::polling_barrier() {
  if (comm_->size() == 1) return {};
  Request* request = nullptr;
  if (Error error = collective(*comm_, tern::Operation::barrier, Operands(), Mode::nonblocking, request)) return error;
  environment_.p2p().wait(*request);
  Error error = std::move(request->error);
  request->release();
  return error;
}

// --- Fence.

Error Window::fence(int assertions) {
  if (Error error = check_assertions(
          assertions, assertion::kNoStore | assertion::kNoPut | assertion::kNoPrecede | assertion::kNoSucceed))
    return error;
  if (Error error = not_idle("fenced")) return error;
  Error error = finish_all();
  if (Error late = serves() ? polling_barrier() : barrier(); late && !error) error = std::move(late);
  fence_ = assertions & assertion::kNoSucceed ? Fence::none : Fence::possible;
  ++epoch_;
  return error;
}

// --- Post, start, complete, wait.

Error Window::members(Group& group, EpochGroup& members) const {
  if (members.group.get() == &group) return {};
  std::vector<int> ranks;
  for (int i = 0; i < group.size(); ++i) {
    const int rank = comm_->group().rank_of(group.peer(i));
    if (rank == kUndefined) {
      return Error(ErrorClass::group,
                   describe() + ": rank " + std::to_string(i) + " of argument 'group' is not in the window's group");
    }
    ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  members = {Ref<Group>::share(&group), std::move(ranks)};
  return {};
}

Error Window::post(Group& group, int assertions) {
  if (Error error = check_assertions(assertions, assertion::kNoCheck | assertion::kNoStore | assertion::kNoPut))
    return error;
  if (posted_) return sync_error("MPI_Win_post was called before; call MPI_Win_wait first");
  if (fence_ == Fence::used) return sync_error("call MPI_Win_fence first, since operations were begun after the last");
  if (Error error = members(group, posted_group_)) return error;
  fence_ = Fence::none;
  posted_ = true;
  const bool told = !(assertions & assertion::kNoCheck);
  for (int rank : posted_group_.ranks) {
    if (const int place = epoch_place(rank); place >= 0) {
      epochs_->post(place, told);
    } else if (told) {
      ++environment_.counters().rma_messages;
      environment_.endpoints().post(environment_.endpoints().at(comm_->peer(rank)), header(wire::kWindowPost));
    }
  }
  return {};
}

Error Window::start(Group& group, int assertions) {
  if (Error error = check_assertions(assertions, assertion::kNoCheck)) return error;
  if (started_) return sync_error("MPI_Win_start was called before; call MPI_Win_complete first");
  if (passive()) return sync_error("targets are locked; unlock them before MPI_Win_start");
  if (fence_ == Fence::used) return sync_error("call MPI_Win_fence first, since operations were begun after the last");
  if (Error error = members(group, started_group_)) return error;
  fence_ = Fence::none;
  ++epoch_;
  started_ = true;
  started_unchecked_ = assertions & assertion::kNoCheck;
  return {};
}

// Nothing of the epoch went by message, so the stores are all there is to be seen.
bool Window::completes_in_memory(const Target& target) const {
  return target.epoch_place >= 0 && !target.lost && !target.unconfirmed && target.pending == 0 && !target.has_records();
}

// What goes by message goes first; then posts that are not there yet are waited for.
Error Window::complete() {
  if (!started_) return sync_error("there is no epoch of MPI_Win_start to complete");
  finish_transfers();
  const std::vector<int>& ranks = started_group_.ranks;
  for (int rank : ranks) {
    Target& to = target(rank);
    to.completes_here = completes_in_memory(to);
    if (to.completes_here) continue;
    wire::WindowWriter(to.open).record({wire::WindowCode::complete});
    to.unconfirmed = false;
    pump(to, true);
  }
  for (int rank : ranks) {
    Target& to = target(rank);
    if (to.completes_here) {
      if (!gate_open(to)) await_post(to);
      if (!to.lost) epochs_->complete(to.epoch_place);
    }
    wait_until([&] { return to.quiet(); });
    if (started_unchecked_) continue;
    if (to.posts != 0) --to.posts;
    else if (to.epoch_place >= 0 && epochs_->is_open(to.epoch_place)) epochs_->use(to.epoch_place);
  }
  started_ = false;
  ++epoch_;
  return take_errors();
}

bool Window::exposure_over() {
  if (epochs_) completed_ += epochs_->take_completions();
  const std::vector<int>& ranks = posted_group_.ranks;
  if (completed_ >= int(ranks.size())) return true;
  Endpoints& endpoints = environment_.endpoints();
  return endpoints.losses() != 0 &&
         std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return endpoints.lost(comm_->peer(rank)); });
}

Error Window::end_exposure() {
  const int origins = int(posted_group_.ranks.size());
  const bool whole = completed_ >= origins;
  completed_ = whole ? completed_ - origins : 0;
  if (epochs_) epochs_->end_exposure();
  posted_ = false;
  if (whole) return {};
  for (int rank : posted_group_.ranks) {
    if (environment_.endpoints().lost(comm_->peer(rank))) return environment_.endpoints().loss_of(comm_->peer(rank));
  }
  return {};
}

Error Window::wait() {
  if (!posted_) return sync_error("there is no epoch of MPI_Win_post to wait for");
  if (epochs_) wait_for_count([&] { return exposure_over(); }, !serves());
  else wait_until([&] { return exposure_over(); });
  return end_exposure();
}

Error Window::test(bool& flag) {
  flag = false;
  if (!posted_) return sync_error("there is no epoch of MPI_Win_post to test");
  if (!exposure_over()) environment_.progress().look();
  if (!exposure_over()) return {};
  flag = true;
  return end_exposure();
}

// --- Locks.

Error Window::may_lock() const {
  if (lock_all_) return sync_error("MPI_Win_lock_all was called before; call MPI_Win_unlock_all first");
  if (started_) return sync_error("call MPI_Win_complete before locking targets");
  if (fence_ == Fence::used) return sync_error("call MPI_Win_fence first, since operations were begun after the last");
  return {};
}

// A lock may protect loads and stores after the call (MPI 5.0, 12.5.3): then it does not return before it is held.
bool Window::must_hold(const Target& target) const { return reachable(target.rank) || own(target.rank); }

// Called when the request for the lock is written.
LockMode Window::begin_lock(Target& target) {
  ++environment_.counters().rma_locks;
  target.lock = LockState::asked;
  target.lock_counts = true;
  const bool has_others = environment_.add_lock();
  return target.exclusive ? LockMode::exclusive : has_others ? LockMode::joining : LockMode::shared;
}

void Window::end_lock(Target& target) {
  target.lock = LockState::none;
  if (target.lock_counts) environment_.remove_lock();
  target.lock_counts = false;
}

void Window::ask_design(Target& target) {
  design_->ask(target.rank, begin_lock(target));
  if (target.lock == LockState::asked) ++environment_.counters().rma_lock_waits;
  wake_design();
}

void Window::wake_design() {
  if (!design_->hints().dormant) environment_.turns().wake();
}

// What was begun before the lock was there leaves now, or never.
void Window::lock_told(int rank, Error error) {
  Target& about = target(rank);
  about.lock = error ? LockState::refused : LockState::held;
  if (error) {
    about.refusal = std::move(error);
    drop_operations(about);
    about.unconfirmed = false;
    about.confirmed = about.asked;
  } else if (about.has_records()) {
    pump(about, true);
  }
  environment_.progress().notify();
}

// Before this rank takes its own lock, whose queue it keeps: it polls for a moment, so that others come in time.
void Window::let_others_come() {
  if (own_turns_.waits()) {
    Clock& clock = environment_.progress().clock();
    const uint64_t until_ns = clock.now_ns() + kOwnPatience_ns;
    while (own_turns_.waits()) {
      environment_.progress().look();
      if (clock.now_ns() >= until_ns) own_turns_.give_up();
    }
  }
  own_turns_.took();
}

Error Window::acquire(Target& target) {
  if (target.lock != LockState::wanted) return {};
  if (!design_ && own(target.rank)) let_others_come();
  if (design_) ask_design(target);
  else send_lock(target);
  if (target.lock == LockState::asked)
    wait_until([&] { return target.lock != LockState::asked || (target.lost && !design_); });
  if (target.lock == LockState::held) return {};
  Error error = take_error(target);
  end_lock(target);
  return error;
}

Error Window::lock(int type, int rank, int assertions) {
  if (lock_short(type, rank, assertions)) return {};
  if (type != kLockExclusive && type != kLockShared)
    return Error(ErrorClass::locktype,
                 "argument 'lock_type' is " + std::to_string(type) + ". Pass MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED.");
  if (Error error = check_assertions(assertions, assertion::kNoCheck)) return error;
  if (Error error = may_lock()) return error;
  if (rank == kProcNull) return {};
  if (Error error = check_rank(rank)) return error;
  Target& to = target(rank);
  if (to.lock != LockState::none) return sync_error("rank " + std::to_string(rank) + " is locked already");
  if (to.lost) return environment_.endpoints().loss_of(to.endpoint.peer);
  fence_ = Fence::none;
  to.unchecked = assertions & assertion::kNoCheck;
  to.exclusive = type == kLockExclusive;
  to.lock = to.unchecked ? LockState::held : LockState::wanted;
  if (must_hold(to)) {
    if (Error error = acquire(to)) return error;
  }
  ++locked_;
  return {};
}

Error Window::lock_all(int assertions) {
  if (Error error = check_assertions(assertions, assertion::kNoCheck)) return error;
  if (Error error = may_lock()) return error;
  if (locked_ != 0) return sync_error("unlock the targets of MPI_Win_lock before MPI_Win_lock_all");
  fence_ = Fence::none;
  lock_all_ = true;
  lock_all_unchecked_ = assertions & assertion::kNoCheck;
  for (int rank = 0; rank < comm_->size(); ++rank) {
    if (!own(rank) && !reachable(rank)) continue;
    Target& to = target(rank);
    Error error = allow(to);
    if (!error) error = acquire(to);
    if (error) {
      static_cast<void>(unlock_all());
      return error;
    }
  }
  return {};
}

// The request for the lock, the operations, the unlocking and the confirmation may all be one message.
void Window::begin_unlock(Target& target) {
  if (target.lock == LockState::none || target.lost) return;
  if (target.lock == LockState::wanted && !target.has_records()) return;  // the target has never heard of it
  // With the lock held, what was begun leaves with the request for the confirmation, as one message.
  if (design_ && target.lock != LockState::held) {
    pump(target, true);
    wait_until([&] { return target.lock != LockState::asked; });
  }
  wait_for_transfers(target);
  const bool by_message = !design_ && !target.unchecked;
  if (by_message) wire::WindowWriter(target.open).record({wire::WindowCode::unlock});
  if (by_message) target.unconfirmed = true;
  conclude(target);
}

Error Window::end_unlock(Target& target) {
  const bool over = target.confirmed == target.asked && target.pending == 0;
  // A rank that keeps the queue of its own lock sees the others' requests before it asks again.
  if (over && own(target.rank) && !design_ && !target.unchecked) environment_.progress().look();
  else if (over) look();
  else wait_for_answers([&] { return target.lost || (target.confirmed == target.asked && target.pending == 0); });
  if (design_ && target.lock == LockState::held && !target.unchecked) {
    design_->release(target.rank);
    wake_design();
  }
  Error error = take_error(target);
  end_lock(target);
  target.unconfirmed = false;
  return error;
}

Error Window::unlock(int rank) {
  if (unlock_short(rank)) return {};
  if (rank == kProcNull) return {};
  if (Error error = check_rank(rank)) return error;
  Target* to = targets_.empty() ? nullptr : targets_[size_t(rank)].get();
  if (lock_all_ || !to || to->lock == LockState::none)
    return sync_error("rank " + std::to_string(rank) + " was not locked by MPI_Win_lock");
  begin_unlock(*to);
  --locked_;
  return end_unlock(*to);
}

Error Window::unlock_all() {
  if (!lock_all_) return sync_error("MPI_Win_lock_all was not called");
  finish_transfers();
  for (auto& target : targets_) {
    if (target) begin_unlock(*target);
  }
  Error first;
  for (auto& target : targets_) {
    if (!target || target->lock == LockState::none) continue;
    if (Error error = end_unlock(*target); error && !first) first = std::move(error);
  }
  lock_all_ = false;
  return first;
}

Error Window::flush(int rank) {
  if (Target* to = held(rank)) {
    if (!to->is_settled()) return finish(*to);
    look();
    return {};
  }
  if (rank == kProcNull) return {};
  if (Error error = not_passive(rank)) return error;
  return finish(target(rank));
}

Error Window::flush_all() {
  if (!passive()) return sync_error("no target is locked. Call MPI_Win_lock or MPI_Win_lock_all first.");
  return finish_all();
}

Error Window::flush_local(int rank) {
  if (Target* to = held(rank)) {
    if (!to->is_settled()) return finish_locally(*to);
    look();
    return {};
  }
  if (rank == kProcNull) return {};
  if (Error error = not_passive(rank)) return error;
  return finish_locally(target(rank));
}

Error Window::flush_local_all() {
  if (!passive()) return sync_error("no target is locked. Call MPI_Win_lock or MPI_Win_lock_all first.");
  Error first;
  for (auto& target : targets_) {
    if (target) pump(*target, true);
  }
  for (auto& target : targets_) {
    if (!target) continue;
    if (Error error = finish_locally(*target); error && !first) first = std::move(error);
  }
  return first;
}

Error Window::sync() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  environment_.progress().look();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return {};
}

}  // namespace tern::rma
