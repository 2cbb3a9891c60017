// ArrivalRate: whether the next bytes of a long message come so fast that a sleep is not worth it.
// Units: bytes, nanoseconds. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace tern::tcp {

class ArrivalRate {
 public:
  /// So many bytes of an unfinished message have arrived.
  void note(uint64_t bytes, Clock& clock) {
    bytes_ += bytes;
    if (bytes_ < kWorthWaitingBytes) return;
    bytes_ = 0;
    arrived_ns_ = clock.now_ns();
  }
  bool fast(uint64_t now_ns) const { return now_ns - arrived_ns_ < kWorthSleeping_ns; }

 private:
  // A rank polls for the next bytes of a message for at most as long as a sleep and a wake-up cost together. On a
  // loopback 64 KiB come every 5 to 10 us, so it polls; on a network of 1 Gbit/s, where packets come as often, 64 KiB
  // take 0.3 ms, and it sleeps. Measured over half of that amount.
  static constexpr uint64_t kWorthSleeping_ns = 15'000, kWorthWaitingBytes = 32 * 1024;
  uint64_t arrived_ns_ = 0;  ///< when kWorthWaitingBytes of an unfinished message were complete last
  uint64_t bytes_ = 0;       ///< since then
};

}  // namespace tern::tcp
