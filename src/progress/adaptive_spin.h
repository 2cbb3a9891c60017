// Whether a rank that shares its core polls for a moment before it gives the core away.
//
// Two ranks that run at the same moment, each on a core of its own, answer each other in 0.2 us. To give the core away
// and get it back takes 1.4 us and more, and takes the rank from its partner, whose next yields are then empty. So 4
// ranks on 2 cores that play ping-pong in pairs need 2.9 us an exchange if all yield at once, and 0.2 us, by turns of a
// time slice, if all spin. But where the partner cannot run now (it shares this core; a ring of 4; neighbours on both
// sides), spinning is lost time. So it is kept up as long as it nearly always succeeds, and tried now and then.
//
//     waits   x x x ... x  s s s s ... s  E s s s    s: ended while spinning   E: the spin was empty
//     polls   0 (64 waits) 32 .......................  x: not tried (yields at once)
//
// Pure: what happens next follows from the calls alone. Thread rule: none; under the rank's lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "progress/waiting_limits.h"

namespace tern {

class AdaptiveSpin {
 public:
  /// Never for more than `max_polls`. The limits live as long as this.
  AdaptiveSpin(uint64_t max_polls, const WaitingLimits& limits)
      : limits_(limits), max_polls_(std::min(max_polls, limits.spin_polls)) {}

  /// For so many empty polls in a row a wait keeps the core.
  uint64_t polls() const { return polls_; }
  /// A wait has used up its polls.
  void was_empty() {
    failed_ = true;
    trust_ -= std::min(trust_, limits_.spin_failure);
    if (trust_ != 0) return;
    polls_ = 0;
    waits_until_trial_ = limits_.spin_trial_interval;
  }
  /// A wait that had empty polls is over.
  void wait_ended() {
    if (polls_ == 0) {
      if (--waits_until_trial_ != 0) return;
      waits_until_trial_ = limits_.spin_trial_interval;
      polls_ = max_polls_;
      trust_ = limits_.spin_first_trust;
    } else if (!failed_) {
      trust_ = std::min(trust_ + 1, limits_.spin_max_trust);
    }
    failed_ = false;
  }

 private:
  const WaitingLimits& limits_;
  uint64_t max_polls_;
  uint64_t polls_ = 0;
  uint64_t waits_until_trial_ = limits_.spin_trial_interval;
  uint64_t trust_ = 0;   ///< at least 1 while polls_ != 0
  bool failed_ = false;  ///< in the wait of this moment
};

}  // namespace tern
