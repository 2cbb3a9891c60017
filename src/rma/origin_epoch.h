// OriginEpoch: which access epochs of a window are open at this rank as an origin (MPI 5.0, 12.5), and whether they let
// an operation leave for a target. Thread rule: under the rank's lock.
#pragma once

#include <vector>

#include "comm/group.h"
#include "rma/node_epochs.h"
#include "rma/target.h"

namespace tern::rma {

enum class Fence : uint8_t { none, possible, used };

/// The ranks of the last group of MPI_Win_post or MPI_Win_start: programs pass the same one again and again.
struct EpochGroup {
  Ref<Group> group;        ///< null: none yet
  std::vector<int> ranks;  ///< of the window, ascending
};

struct OriginEpoch {
  Fence fence = Fence::none;
  bool lock_all = false, lock_all_unchecked = false;
  int locked = 0;        ///< targets locked by MPI_Win_lock
  bool started = false;  ///< an access epoch of MPI_Win_start is open
  bool started_unchecked = false;
  EpochGroup group;              ///< of MPI_Win_start
  uint64_t number = 1;           ///< how many access epochs of MPI_Win_fence and MPI_Win_start have begun or ended
  NodeEpochs* counts = nullptr;  ///< null: no memory is shared

  bool passive() const { return lock_all || locked != 0; }
  /// For assertions: what the calls that begin epochs allow (12.5).
  bool consistent() const {
    return locked >= 0 && !(lock_all && locked != 0) && !(started && passive()) &&
           !(fence == Fence::used && (started || passive()));
  }
  /// What was begun may leave.
  bool is_open_to(const Target& target) const {
    if (target.lock.state != LockState::none) return target.lock.state == LockState::held;
    if (!started || started_unchecked || target.epoch.posts != 0) return true;
    return target.epoch.place >= 0 && counts->is_open(target.epoch.place);
  }
};

}  // namespace tern::rma
