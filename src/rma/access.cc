#include "rma/access.h"

#include <atomic>

#include "base/assert.h"
#include "coll/collectives.h"

namespace tern::rma {

// --- Errors.

// An epoch of another kind is open.
Error Access::not_idle(const char* what) const {
  const std::string before = std::string("it cannot be ") + what + " before ";
  if (epoch_.lock_all) return context_.sync_error(before + "MPI_Win_unlock_all");
  if (epoch_.locked != 0) return context_.sync_error(before + "MPI_Win_unlock of every target that is locked");
  if (epoch_.started) return context_.sync_error(before + "MPI_Win_complete");
  if (exposure_.is_posted()) return context_.sync_error(before + "MPI_Win_wait");
  return {};
}

Error Access::not_passive(int rank) const {
  if (rank != kProcNull) {
    if (Error error = context_.check_rank(rank)) return error;
  }
  if (epoch_.lock_all) return {};
  const Target* one = operations_.known(rank);
  if (one && one->lock.state != LockState::none) return {};
  return context_.sync_error("rank " + std::to_string(rank) +
                             " is not locked. Call MPI_Win_lock or MPI_Win_lock_all first.");
}

Error Access::check_assertions(int assertions, int allowed) const {
  if ((assertions & ~allowed) == 0) return {};
  return Error(ErrorClass::assertion, "argument 'assert' is " + std::to_string(assertions) +
                                          ", which has bits that mean nothing in this call");
}

Error Access::used_fence() const {
  if (epoch_.fence != Fence::used) return {};
  return context_.sync_error("call MPI_Win_fence first, since operations were begun after the last");
}

// --- Fence.

Error Access::barrier() {
  if (context_.comm->size() == 1) return {};
  Request* none = nullptr;
  return collective(*context_.comm, tern::Operation::barrier, Operands(), Mode::blocking, none);
}

// The blocking barrier of a node looks at memory for some microseconds before it polls. Others may need this rank's
// polls sooner: a fence waits for their operations.
Error Access::polling_barrier() {
  if (context_.comm->size() == 1) return {};
  Request* request = nullptr;
  if (Error error = collective(*context_.comm, tern::Operation::barrier, Operands(), Mode::nonblocking, request))
    return error;
  context_.environment.p2p().wait(*request);
  Error error = std::move(request->error);
  request->release();
  return error;
}

Error Access::fence(int assertions) {
  if (Error error = check_assertions(
          assertions, assertion::kNoStore | assertion::kNoPut | assertion::kNoPrecede | assertion::kNoSucceed))
    return error;
  if (Error error = not_idle("fenced")) return error;
  Error error = completion_.finish_all();
  if (Error late = context_.serves ? polling_barrier() : barrier(); late && !error) error = std::move(late);
  epoch_.fence = assertions & assertion::kNoSucceed ? Fence::none : Fence::possible;
  ++epoch_.number;
  TERN_DEBUG_ASSERT(epoch_.consistent());
  return error;
}

// --- Post, start, complete, wait.

Error Access::post(Group& group, int assertions) {
  if (Error error = check_assertions(assertions, assertion::kNoCheck | assertion::kNoStore | assertion::kNoPut))
    return error;
  if (exposure_.is_posted()) return context_.sync_error("MPI_Win_post was called before; call MPI_Win_wait first");
  if (Error error = used_fence()) return error;
  if (Error error = exposure_.post(group, !(assertions & assertion::kNoCheck))) return error;
  epoch_.fence = Fence::none;
  return {};
}

Error Access::start(Group& group, int assertions) {
  if (Error error = check_assertions(assertions, assertion::kNoCheck)) return error;
  if (epoch_.started) return context_.sync_error("MPI_Win_start was called before; call MPI_Win_complete first");
  if (epoch_.passive()) return context_.sync_error("targets are locked; unlock them before MPI_Win_start");
  if (Error error = used_fence()) return error;
  if (Error error = exposure_.members(group, epoch_.group)) return error;
  epoch_.fence = Fence::none;
  ++epoch_.number;
  TERN_DEBUG_ASSERT(!epoch_.passive());
  epoch_.started = true;
  epoch_.started_unchecked = assertions & assertion::kNoCheck;
  TERN_DEBUG_ASSERT(epoch_.consistent());
  return {};
}

void Access::take_post(int from) {
  Target& origin_of = operations_.target(from);
  ++origin_of.epoch.posts;
  records_.pump(origin_of, true);
  context_.progress().notify();
}

namespace {
// Nothing of the epoch went by message, so the stores are all there is to be seen.
bool completes_in_memory(const Target& target) {
  return target.epoch.place >= 0 && !target.lost && !target.flight.unconfirmed && target.flight.pending == 0 &&
         !target.out.has_records();
}
}  // namespace

// What goes by message goes first; then posts that are not there yet are waited for.
Error Access::complete() {
  if (!epoch_.started) return context_.sync_error("there is no epoch of MPI_Win_start to complete");
  completion_.finish_transfers();
  const std::vector<int>& ranks = epoch_.group.ranks;
  for (int rank : ranks) {
    Target& to = operations_.target(rank);
    to.epoch.completes_here = completes_in_memory(to);
    TERN_DEBUG_ASSERT(!to.epoch.completes_here || epoch_.counts);
    if (to.epoch.completes_here) continue;
    wire::WindowWriter(to.out.open).record({wire::WindowCode::complete});
    to.flight.unconfirmed = false;
    records_.pump(to, true);
  }
  for (int rank : ranks) {
    Target& to = operations_.target(rank);
    if (to.epoch.completes_here) {
      if (!epoch_.is_open_to(to)) operations_.await_post(to);
      if (!to.lost) epoch_.counts->complete(to.epoch.place);
    }
    waiting_.until([&] { return to.quiet(); });
    if (epoch_.started_unchecked) continue;
    TERN_DEBUG_ASSERT(to.quiet());
    if (to.epoch.posts != 0) --to.epoch.posts;
    else if (to.epoch.place >= 0 && epoch_.counts->is_open(to.epoch.place)) epoch_.counts->use(to.epoch.place);
  }
  TERN_DEBUG_ASSERT(epoch_.started && epoch_.consistent());
  epoch_.started = false;
  ++epoch_.number;
  return completion_.take_errors();
}

// --- Flush.

Error Access::flush(int rank) {
  if (Target* to = operations_.held(rank)) {
    if (!to->is_settled()) return completion_.finish(*to);
    if (to->memory.start) operations_.gate().count_short();
    waiting_.look();
    return {};
  }
  if (rank == kProcNull) return {};
  if (Error error = not_passive(rank)) return error;
  return completion_.finish(operations_.target(rank));
}

Error Access::flush_all() {
  if (epoch_.passive()) return completion_.finish_all();
  return context_.sync_error("no target is locked. Call MPI_Win_lock or MPI_Win_lock_all first.");
}

Error Access::flush_local(int rank) {
  if (Target* to = operations_.held(rank)) {
    if (!to->is_settled()) return completion_.finish_locally(*to);
    if (to->memory.start) operations_.gate().count_short();
    waiting_.look();
    return {};
  }
  if (rank == kProcNull) return {};
  if (Error error = not_passive(rank)) return error;
  return completion_.finish_locally(operations_.target(rank));
}

Error Access::flush_local_all() {
  if (epoch_.passive()) return completion_.finish_all_locally();
  return context_.sync_error("no target is locked. Call MPI_Win_lock or MPI_Win_lock_all first.");
}

Error Access::sync() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  context_.progress().look();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return {};
}

}  // namespace tern::rma
