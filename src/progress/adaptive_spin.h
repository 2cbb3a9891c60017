// Whether a rank that shares its core polls for a moment before it yields the core.
//
// Two ranks that run at the same moment, each on a core of its own, answer each other in 0.2 us. A yield and the return
// from it take 1.4 us and more, and meanwhile the rank does not run, so its partner's next yields are empty. So 4 ranks
// on 2 cores that play ping-pong in pairs need 2.9 us per exchange if all yield at once; if all spin, a pair runs for a
// time slice and needs 0.2 us. But if the partner cannot run now (it shares this core; a ring of 4; neighbours on both
// sides), spinning is lost time. So spinning goes on as long as it nearly always succeeds, and is tried now and then.
//
//     waits   x x x ... x  s s s s ... s  E s s s    s: the message came while spinning   E: the spin was empty
//     polls   0 (64 waits) 32 .......................  x: not tried (yields at once)
//
// Pure: the next step follows from the calls alone. Thread rule: none; under the rank's lock.
#pragma once

#include <algorithm>
#include <cstdint>

#include "progress/waiting_limits.h"

namespace tern {

class AdaptiveSpin {
 public:
  /// Spins for at most `max_polls`. The limits must outlive this object.
  AdaptiveSpin(uint64_t max_polls, const WaitingLimits& limits)
      : limits_(limits), max_polls_(std::min(max_polls, limits.spin_polls)) {}

  /// How many empty polls in a row a wait makes before it yields.
  uint64_t polls() const { return polls_; }
  /// A wait has used up its polls without success.
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
  bool failed_ = false;  ///< in the present wait
};

}  // namespace tern
