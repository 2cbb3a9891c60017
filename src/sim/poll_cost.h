// CPU time of a poll in virtual time: it grows while polls are empty, so that a program that tests in a loop does not
// need a million events per millisecond. Thread rule: the strand's own.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern::sim {

class PollCost {
 public:
  /// Where a rank polls several things that its messages may come by, `finds` counts how often any of them had
  /// something: what is found by one is no reason to look less closely at the others.
  uint64_t times(uint64_t finds) {
    if (finds != seen_) empty_ = 0;
    seen_ = finds;
    return times();
  }
  void polled(bool found, uint64_t& finds) {
    polled(found);
    finds += found;
    seen_ = finds;
  }

  /// Factor for the time of the present poll.
  uint64_t times() const { return empty_ <= kFullResolution ? 1 : 1 + std::min(empty_ - kFullResolution, kMaxMore); }
  void polled(bool found) { empty_ = found ? 0 : empty_ + 1; }

 private:
  /// Empty polls in a row at the normal cost: those during a small message's round trip (some 1 us at 20 ns).
  static constexpr uint64_t kFullResolution = 64;
  /// Later a message is found at most so many polls late: 1 us, little for a rank that has waited for longer.
  static constexpr uint64_t kMaxMore = 50;
  uint64_t empty_ = 0;
  uint64_t seen_ = 0;  ///< value of `finds`
};

}  // namespace tern::sim
