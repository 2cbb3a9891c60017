// Access: the synchronisation of a window, as its origins call it (MPI 5.0, 12.5): fence; start, complete; lock,
// unlock; flush. Post and wait, of the target, go to the exposure. Each call checks whether the epochs that are open
// allow it.
//
//   epoch of       begins with             ends with
//   fence          MPI_Win_fence           MPI_Win_fence              OriginEpoch::fence
//   a group        MPI_Win_start           MPI_Win_complete           OriginEpoch::started
//   one target     MPI_Win_lock            MPI_Win_unlock             OriginEpoch::locked, Target::lock
//   all targets    MPI_Win_lock_all        MPI_Win_unlock_all         OriginEpoch::lock_all, Target::lock
//
// Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include "rma/completion.h"
#include "rma/exposure.h"
#include "rma/operations.h"

namespace tern::rma {

class Access {
 public:
  Access(WindowContext& context, const MemoryMap& memory, OriginLocks& locks, Waiting& waiting, Operations& operations,
         Exposure& exposure)
      : context_(context),
        memory_(memory),
        locks_(locks),
        waiting_(waiting),
        operations_(operations),
        exposure_(exposure),
        epoch_(operations.epoch()),
        records_(operations.records()),
        completion_(context, operations.targets(), operations.records(), operations.adapter(), waiting) {}
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  Error fence(int assertions);
  Error post(Group& group, int assertions);
  Error start(Group& group, int assertions);
  Error complete();
  Error wait() { return exposure_.wait(); }
  Error test(bool& flag) { return exposure_.test(flag); }
  Error lock(int type, int rank, int assertions);
  Error unlock(int rank);
  Error lock_all(int assertions);
  Error unlock_all();
  Error flush(int rank);
  Error flush_all();
  Error flush_local(int rank);
  Error flush_local_all();
  Error sync();

  // --- Of the window.
  /// Error: an epoch is open; `what` cannot be done.
  Error not_idle(const char* what) const;
  Error finish_all() { return completion_.finish_all(); }
  /// All ranks of the window are here.
  Error barrier();
  /// The answer of a lock design for a target.
  void lock_told(int rank, Error error);
  void take_post(int from);

 private:
  Error not_passive(int rank) const;
  Error check_assertions(int assertions, int allowed) const;
  Error used_fence() const;
  Error may_lock() const;
  Error polling_barrier();
  bool must_hold(const Target& target) const;
  Error acquire(Target& target);
  bool lock_short(int type, int rank, int assertions);
  bool unlock_short(int rank);
  void begin_unlock(Target& target);
  Error end_unlock(Target& target);

  WindowContext& context_;
  const MemoryMap& memory_;
  OriginLocks& locks_;
  Waiting& waiting_;
  Operations& operations_;
  Exposure& exposure_;
  OriginEpoch& epoch_;
  RecordRoute& records_;
  Completion completion_;
};

}  // namespace tern::rma
