// The simulated rank's clock, its way of waiting, and its event thread: the strand's time and its sleep.
// Thread rule: the strand's own.
#pragma once

#include "base/clock.h"
#include "base/rng.h"
#include "progress/idle.h"
#include "sim/scheduler.h"

namespace tern::sim {

class SimClock final : public Clock {
 public:
  explicit SimClock(Strand& strand) : strand_(strand) {}
  /// Looking at the clock costs time too: a loop that waits for a moment gets there.
  uint64_t now_ns() override {
    strand_.charge_ns(kReadNs);
    return strand_.now_ns();
  }
  void charge_ns(uint64_t ns) override { strand_.charge_ns(ns); }
  /// As charge_ns, for work outside the library while an event thread (progress/event_thread.h, always asleep on the
  /// paths) has the same core: whenever something comes, the work stands still for waking the thread and for what a
  /// poll then does.
  void charge_beside_events(uint64_t ns, ProgressEngine& engine, uint64_t wake_ns);

 private:
  static constexpr uint64_t kReadNs = 28;  // clock_gettime on the reference machine
  Strand& strand_;
};

/// Gives the turn to the next event. With probability `early_in_8`/8 wakes up for nothing after a short while: whoever
/// waits must be able to stand that.
class SimIdle final : public Idle {
 public:
  SimIdle(Strand& strand, uint64_t seed, uint32_t early_in_8) : strand_(strand), rng_(seed), early_in_8_(early_in_8) {}
  void relax(ProgressEngine& engine, Wait& wait, const Condition& done) override;

 private:
  Strand& strand_;
  Rng rng_;
  uint32_t early_in_8_;
};

}  // namespace tern::sim
