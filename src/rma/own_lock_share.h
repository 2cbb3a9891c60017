// OwnLockShare: how often a target that keeps the queue of its own lock takes it itself while other origins use it,
// too.
//
// When an origin has given the lock back and asks again at once, its next request arrives one round trip later.
// Meanwhile the queue is empty, and the target, which needs no message, could take the lock a hundred times (deceptive
// idleness, Iyer and Druschel 2001). So after some turns it waits a moment for those that are expected to come again.
// Who did not come in time is not expected for some turns: 1, then 2, 4 ... up to kMaxSkips, until it comes again in
// time.
//
//   target    own own (wait)      own ...     no other origin ever gets less than one turn for kInARow + 1 of the
//   origin A            A             A       target's, as long as it comes again within the time that is waited
//
// Pure. Thread rule: under the target's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>
#include "base/assert.h"

namespace tern::rma {

class OwnLockShare {
 public:
  static constexpr uint32_t kInARow = 2, kMaxSkips = 64;

  /// What is kept about one other origin, by the caller. Does not move.
  struct Origin {
    bool expected = false;
    uint32_t left_at = 0;     ///< the target's turns when it gave the lock back; while expected
    uint32_t skips = 0;       ///< the next releases after which it is not expected
    uint32_t next_skips = 1;  ///< value of `skips` when it does not come in time
  };

  /// The target has taken its lock.
  void took() { ++turns_; }
  void gave_back(Origin& origin) {
    if (origin.skips != 0) {
      --origin.skips;
      return;
    }
    if (origin.expected) return;
    TERN_DEBUG_ASSERT(std::find(away_.begin(), away_.end(), &origin) == away_.end());
    origin.expected = true;
    origin.left_at = turns_;
    away_.push_back(&origin);
  }
  void asked(Origin& origin) {
    if (!origin.expected) return;
    origin.next_skips = 1;
    forget(origin);
  }
  /// It is expected no longer, whatever it does.
  void forget(Origin& origin) {
    if (!origin.expected) return;
    origin.expected = false;
    TERN_DEBUG_ASSERT(std::find(away_.begin(), away_.end(), &origin) != away_.end());
    std::erase(away_, &origin);
  }
  /// The target should not take the lock now.
  bool waits() const {
    return std::any_of(away_.begin(), away_.end(), [this](const Origin* one) { return is_overdue(*one); });
  }
  /// It has waited, and nothing came.
  void give_up() {
    std::erase_if(away_, [this](Origin* one) {
      if (!is_overdue(*one)) return false;
      one->expected = false;
      one->skips = one->next_skips;
      one->next_skips = std::min(2 * one->next_skips, kMaxSkips);
      return true;
    });
  }

 private:
  bool is_overdue(const Origin& origin) const { return turns_ - origin.left_at >= kInARow; }

  uint32_t turns_ = 0;         ///< of the target
  std::vector<Origin*> away_;  ///< that are expected
};

}  // namespace tern::rma
