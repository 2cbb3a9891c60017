// Time, as a rank sees it. Everything below capi/ takes time from here, so that a simulated rank lives in virtual time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>

#include "base/cycle_counter.h"

namespace tern {

// Times are uint64_t in nanoseconds.
inline constexpr uint64_t kMillisecond_ns = 1'000'000, kSecond_ns = 1'000'000'000;
inline constexpr uint64_t kNever_ns = ~uint64_t{0};  ///< a deadline that does not come

class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds since an arbitrary start; never goes back.
  virtual uint64_t now_ns() = 0;
  /// As now_ns, but cheaper (8 instead of 18 ns) and less exact: only differences of two of its values count, over
  /// less than a second, wrong by a percent at most. For what happens with every message. Under the rank's lock.
  virtual uint64_t rough_ns() { return now_ns(); }
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
  uint64_t rough_ns() override { return cycles_.known() ? cycles_.now_ns() : measure(); }

 private:
  // Until the counter's rate is known.
  uint64_t measure() {
    const uint64_t before = CycleCounter::read(), now = now_ns();
    cycles_.note(before, now, CycleCounter::read());
    return now;
  }

  CycleCounter cycles_;
};

}  // namespace tern
