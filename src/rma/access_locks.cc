// Access, continued: lock, unlock, lock_all, unlock_all (MPI 5.0, 12.5.3).
#include "base/assert.h"
#include "rma/access.h"

namespace tern::rma {

Error Access::may_lock() const {
  if (epoch_.lock_all) return context_.sync_error("MPI_Win_lock_all was called before; call MPI_Win_unlock_all first");
  if (epoch_.started) return context_.sync_error("call MPI_Win_complete before locking targets");
  return used_fence();
}

// A lock may protect loads and stores after the call (MPI 5.0, 12.5.3): then it does not return before it is held.
bool Access::must_hold(const Target& target) const {
  return context_.lock_at_once || target.memory.start || context_.own(target.rank);
}

// What was begun before the lock was there leaves now, or never.
void Access::lock_told(int rank, Error error) {
  Target& about = operations_.target(rank);
  TERN_DEBUG_ASSERT(about.lock.state == LockState::asked || about.lock.state == LockState::refused);
  about.lock.state = error ? LockState::refused : LockState::held;
  if (error) {
    about.lock.refusal = std::move(error);
    records_.drop_operations(about);
    about.flight.unconfirmed = false;
    about.flight.confirmed = about.flight.asked;
  } else if (about.out.has_records()) {
    records_.pump(about, true);
  }
  context_.progress().notify();
}

Error Access::acquire(Target& target) {
  if (target.lock.state != LockState::wanted) return {};
  const bool by_words = locks_.by_words();
  if (!by_words && context_.own(target.rank)) exposure_.let_others_come();
  if (by_words) locks_.ask(target);
  else records_.send_lock(target);
  if (target.lock.state == LockState::asked)
    waiting_.until([&] { return target.lock.state != LockState::asked || (target.lost && !by_words); });
  if (target.lock.state == LockState::held) return {};
  Error error = completion_.take_error(target);
  locks_.end(target);
  return error;
}

// The exclusive lock, if it is free, of memory that this rank reaches: the commonest case in one piece.
bool Access::lock_short(int type, int rank, int assertions) {
  if (type != kLockExclusive || assertions != 0 || !locks_.by_words()) return false;
  Target* to = operations_.known(rank);
  if (!to || !to->memory.start || to->lock.state != LockState::none || !to->is_settled()) return false;
  if (epoch_.lock_all || epoch_.started || epoch_.fence == Fence::used || !locks_.take_free(*to)) return false;
  epoch_.fence = Fence::none;
  ++epoch_.locked;
  TERN_DEBUG_ASSERT(epoch_.consistent());
  TERN_DEBUG_ASSERT(to->lock.state == LockState::held);
  return true;
}

Error Access::lock(int type, int rank, int assertions) {
  if (lock_short(type, rank, assertions)) return {};
  if (type != kLockExclusive && type != kLockShared)
    return Error(ErrorClass::locktype,
                 "argument 'lock_type' is " + std::to_string(type) + ". Pass MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED.");
  if (Error error = check_assertions(assertions, assertion::kNoCheck)) return error;
  if (Error error = may_lock()) return error;
  if (rank == kProcNull) return {};
  if (Error error = context_.check_rank(rank)) return error;
  Target& to = operations_.target(rank);
  if (to.lock.state != LockState::none)
    return context_.sync_error("rank " + std::to_string(rank) + " is locked already");
  if (to.lost) return context_.environment.endpoints().loss_of(to.endpoint.peer);
  epoch_.fence = Fence::none;
  to.lock.unchecked = assertions & assertion::kNoCheck;
  to.lock.exclusive = type == kLockExclusive;
  to.lock.state = to.lock.unchecked ? LockState::held : LockState::wanted;
  if (must_hold(to)) {
    if (Error error = acquire(to)) return error;
  }
  ++epoch_.locked;
  TERN_DEBUG_ASSERT(epoch_.consistent());
  TERN_DEBUG_ASSERT(to.lock.state != LockState::none);
  return {};
}

Error Access::lock_all(int assertions) {
  if (Error error = check_assertions(assertions, assertion::kNoCheck)) return error;
  if (Error error = may_lock()) return error;
  if (epoch_.locked != 0) return context_.sync_error("unlock the targets of MPI_Win_lock before MPI_Win_lock_all");
  epoch_.fence = Fence::none;
  epoch_.lock_all = true;
  epoch_.lock_all_unchecked = assertions & assertion::kNoCheck;
  TERN_DEBUG_ASSERT(epoch_.consistent());
  for (int rank = 0; rank < context_.comm->size(); ++rank) {
    if (!context_.own(rank) && !memory_.reachable(rank)) continue;
    Target& to = operations_.target(rank);
    Error error = operations_.allow(to);
    if (!error) error = acquire(to);
    if (error) {
      static_cast<void>(unlock_all());
      return error;
    }
  }
  return {};
}

// The request for the lock, the operations, the unlocking and the confirmation may all be one message.
void Access::begin_unlock(Target& target) {
  if (target.lock.state == LockState::none || target.lost) return;
  // The target has never heard of it.
  if (target.lock.state == LockState::wanted && !target.out.has_records()) return;
  // With the lock held, what was begun leaves with the request for the confirmation, as one message.
  if (locks_.by_words() && target.lock.state != LockState::held) {
    records_.pump(target, true);
    waiting_.until([&] { return target.lock.state != LockState::asked; });
  }
  completion_.finish_transfers(target);
  if (!locks_.by_words() && !target.lock.unchecked) {
    wire::WindowWriter(target.out.open).record({wire::WindowCode::unlock});
    target.flight.unconfirmed = true;
    TERN_DEBUG_ASSERT(target.lock.state != LockState::none);
  }
  records_.conclude(target);
}

Error Access::end_unlock(Target& target) {
  const auto is_over = [&] { return target.flight.is_confirmed() && target.flight.pending == 0; };
  // A rank that keeps the queue of its own lock sees the others' requests before it asks again.
  const bool keeps = context_.own(target.rank) && !locks_.by_words() && !target.lock.unchecked;
  if (!is_over()) waiting_.until_answered([&] { return target.lost || is_over(); });
  else if (keeps) context_.progress().look();
  else waiting_.look();
  if (locks_.by_words() && target.lock.state == LockState::held && !target.lock.unchecked) locks_.release(target);
  Error error = completion_.take_error(target);
  locks_.end(target);
  target.flight.unconfirmed = false;
  return error;
}

bool Access::unlock_short(int rank) {
  Target* to = operations_.held(rank);
  if (!to || !to->is_settled() || epoch_.lock_all || to->lock.unchecked || !locks_.by_words()) return false;
  waiting_.look();
  locks_.release(*to);
  locks_.end(*to);
  TERN_ASSERT(epoch_.locked > 0);
  TERN_DEBUG_ASSERT(to->is_settled() && to->lock.state == LockState::none);
  --epoch_.locked;
  return true;
}

Error Access::unlock(int rank) {
  if (unlock_short(rank)) return {};
  if (rank == kProcNull) return {};
  if (Error error = context_.check_rank(rank)) return error;
  Target* to = operations_.known(rank);
  if (epoch_.lock_all || !to || to->lock.state == LockState::none)
    return context_.sync_error("rank " + std::to_string(rank) + " was not locked by MPI_Win_lock");
  begin_unlock(*to);
  TERN_ASSERT(epoch_.locked > 0);
  --epoch_.locked;
  return end_unlock(*to);
}

Error Access::unlock_all() {
  if (!epoch_.lock_all) return context_.sync_error("MPI_Win_lock_all was not called");
  completion_.finish_transfers();
  for (auto& target : operations_.targets()) {
    if (target) begin_unlock(*target);
  }
  Error first;
  for (auto& target : operations_.targets()) {
    if (!target || target->lock.state == LockState::none) continue;
    if (Error error = end_unlock(*target); error && !first) first = std::move(error);
  }
  epoch_.lock_all = false;
  TERN_DEBUG_ASSERT(epoch_.consistent());
  return first;
}

}  // namespace tern::rma
