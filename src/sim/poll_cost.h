// What a poll costs in virtual time: more and more while nothing comes, so that a program that tests in a loop does not
// need a million events to pass a millisecond. Thread rule: the strand's own.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern::sim {

class PollCost {
 public:
  /// So many times the price of one poll.
  uint64_t times() const { return empty_ <= kFullResolution ? 1 : 1 + std::min(empty_ - kFullResolution, kMaxMore); }
  void polled(bool found) { empty_ = found ? 0 : empty_ + 1; }

 private:
  /// Empty polls in a row at their price: what a rank polls for a small message's round trip (some 1 us at 20 ns).
  static constexpr uint64_t kFullResolution = 64;
  /// Then a message is found at most so many polls late: 1 us, which matters little to who has waited for longer.
  static constexpr uint64_t kMaxMore = 50;
  uint64_t empty_ = 0;
};

}  // namespace tern::sim
