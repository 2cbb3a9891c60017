// WorkLeft: what short calls of a message engine (engine_gate.h) leave undone, for the rank, which must know of it
// without the engine's gate: only then somebody polls while the program computes.
//
//   a short call, inside    leave(need): says what is left. True: the rank knows of less, and must be told.
//   the rank, at any time   ask(): what is left, when it decides whether somebody must poll.
//
// Either `ask` sees what a call leaves, or that call sees that the rank knew of less: each writes its own word before
// it reads the other's. Thread rule: `leave` inside the engine's gate, `ask` and `note_told` under the rank's lock.
#pragma once

#include <atomic>

#include "base/need.h"

namespace tern {

class WorkLeft {
 public:
  /// True: call `note_told` under the rank's lock, and leave that as a call of the application does.
  bool leave(Need need) {
    if (need != left_.load(std::memory_order_relaxed)) left_ = need;
    return need > told_;
  }
  void note_told() { told_ = left_.load(); }
  Need ask() {
    told_ = Need::nothing;
    const Need need = left_;
    told_ = need;
    return need;
  }

 private:
  std::atomic<Need> left_{Need::nothing};
  std::atomic<Need> told_{Need::nothing};
};

}  // namespace tern
