// Whether a rank that shares its core goes on polling for a moment before it gives the core away.
//
// Two ranks that run at the same moment, each on a core of its own, answer each other in 0.2 us; to give the core away
// and get it back takes 1.4 us and more, and takes the rank from its partner, which then yields in vain in its turn. So
// 4 ranks on 2 cores that play ping-pong in pairs need 2.9 us an exchange if all yield at once, and 0.2 us, by turns of
// a time slice, if all linger. But where the partner cannot run now (it shares this core; a ring of 4; neighbours on
// both sides), lingering is lost time: it is kept up as long as it nearly always succeeds, and tried now and then.
//
//     waits   x x x ... x  v v v v ... v  X v v v    v: ended while lingering   X: in vain
//     rounds  0 (64 waits) 32 .......................  x: not tried (yields at once)
//
// Thread rule: none; under the rank's lock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

class Lingering {
 public:
  /// Never for more than `most_rounds` polls.
  explicit Lingering(uint32_t most_rounds) : most_rounds_(std::min(most_rounds, kRounds)) {}

  /// For so many fruitless polls in a row a wait keeps the core.
  uint32_t rounds() const { return rounds_; }
  /// A wait has come to the end of its rounds.
  void in_vain() {
    failed_ = true;
    trust_ -= std::min(trust_, kFailure);
    if (trust_ != 0) return;
    rounds_ = 0;
    waits_until_trial_ = kTrialInterval;
  }
  /// A wait that had fruitless polls is over.
  void wait_ended() {
    if (rounds_ == 0) {
      if (--waits_until_trial_ != 0) return;
      waits_until_trial_ = kTrialInterval;
      rounds_ = most_rounds_;
      trust_ = kFirstTrust;
    } else if (!failed_) {
      trust_ = std::min(trust_ + 1, kMostTrust);
    }
    failed_ = false;
  }

  /// Some 0.8 us: the partner's answer, and its way back from a yield of its own. (8 and 16 help pairs of 4 ranks on 2
  /// cores in 3 and 4 runs of 9, 32 in 7; 64 costs rings of 8 and exchanges with two neighbours a third.)
  static constexpr uint32_t kRounds = 32;
  /// A trial that fails costs its rounds twice (kFirstTrust / kFailure): 2 % of what 64 waits take that yield.
  static constexpr uint32_t kTrialInterval = 64;
  static constexpr uint32_t kFirstTrust = 8, kMostTrust = 32;
  /// A wait in vain weighs as much as so many successes: of the waits inside one collective operation of 4 ranks on 2
  /// cores, half succeed, and the operation needs its yields nevertheless.
  static constexpr uint32_t kFailure = 4;

 private:
  uint32_t most_rounds_;
  uint32_t rounds_ = 0;
  uint32_t waits_until_trial_ = kTrialInterval;
  uint32_t trust_ = 0;   ///< at least 1 while rounds_ != 0
  bool failed_ = false;  ///< in the wait of this moment
};

}  // namespace tern
