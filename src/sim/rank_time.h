// The simulated rank's clock and its way of waiting: the strand's time and its sleep.
// Thread rule: the strand's own.
#pragma once

#include "base/clock.h"
#include "base/rng.h"
#include "progress/wait_port.h"
#include "sim/event_thread.h"
#include "sim/network.h"
#include "sim/scheduler.h"

namespace tern::sim {

class SimClock final : public Clock {
 public:
  SimClock(Strand& strand, EventStation& station, const NetworkModel& costs)
      : strand_(strand), station_(station), costs_(costs) {}
  /// Reading the clock costs time too, so that a loop that polls the clock ends.
  uint64_t now_ns() override {
    strand_.charge_ns(kRead_ns);
    return strand_.now_ns();
  }
  void charge_ns(uint64_t ns) override { strand_.charge_ns(ns); }
  void charge_copy(size_t bytes) override { strand_.charge_ns(costs_.copy_ns(bytes)); }
  void charge_reduction(size_t bytes) override { strand_.charge_ns(bytes * 1000 / costs_.reduce_bytes_per_us); }
  /// Work outside the library; beside the event thread, and on cores that other ranks may share.
  void compute_ns(uint64_t ns) { station_.compute(ns); }
  /// Time of a core that this rank has used, its event thread included. A rank that waits uses none: it counts as
  /// asleep.
  uint64_t busy_ns() const { return strand_.busy_ns() + station_.computed_ns(); }

 private:
  static constexpr uint64_t kRead_ns = 28;  // clock_gettime on the reference machine (a KVM guest), measured
  Strand& strand_;
  EventStation& station_;
  const NetworkModel& costs_;
};

/// Runs the next event. With probability `early_in_8`/8 wakes up without a reason after a short while: every wait must
/// tolerate that.
class SimWait final : public WaitPort {
 public:
  SimWait(Strand& strand, EventStation& station, uint64_t seed, uint32_t early_in_8)
      : strand_(strand), station_(station), rng_(seed), early_in_8_(early_in_8) {}
  bool virtual_time() const override { return true; }
  void on_empty_poll() override { strand_.catch_up(); }
  void sleep(uint64_t deadline_ns, uint64_t now_ns) override;
  /// The thread works on this strand; then the kernel switches back to the application.
  void sleep_beside_helper(uint64_t deadline_ns, uint64_t now_ns) override;
  void wake() override {
    woken_ = true;
    strand_.wake(0);  // another thread of the rank calls
  }
  void forget_wake() override { woken_ = false; }

 private:
  Strand& strand_;
  EventStation& station_;
  Rng rng_;
  uint32_t early_in_8_;
  bool woken_ = false;
};

}  // namespace tern::sim
