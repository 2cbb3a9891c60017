// Time, as a rank sees it. Everything below capi/ takes time from here, so that a simulated rank lives in virtual time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>

namespace tern {

// Times are uint64_t in nanoseconds.
inline constexpr uint64_t kMillisecond_ns = 1'000'000, kSecond_ns = 1'000'000'000;
inline constexpr uint64_t kNever_ns = ~uint64_t{0};  ///< a deadline that does not come

class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds since an arbitrary start; never goes back.
  virtual uint64_t now_ns() = 0;
  /// The rank's own work (a copy, a post, a poll) has cost `ns`: moves virtual time on, does nothing on a real clock.
  virtual void charge_ns(uint64_t ns) {}
  /// The rank has copied (reduced) `bytes` bytes: as charge_ns, at the rates of the simulated machine.
  virtual void charge_copy(size_t bytes) {}
  virtual void charge_reduction(size_t bytes) {}
};

class RealClock final : public Clock {
 public:
  uint64_t now_ns() override {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return uint64_t(t.tv_sec) * kSecond_ns + uint64_t(t.tv_nsec);
  }
};

}  // namespace tern
