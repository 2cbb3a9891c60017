// WaitPort: the kernel's part of waiting: to yield a core, to sleep on descriptors. Real (kernel_wait.h) or in virtual
// time (sim/rank_time.h). What is done when is not decided here (waiting.h).
#pragma once

#include <cstdint>

namespace tern {

class WaitPort {
 public:
  virtual ~WaitPort() = default;

  /// No message can come between a poll and a sleep (other threads of the rank can), and each look at the clock or the
  /// paths takes virtual time. So a thread that has polled empty sleeps at once.
  virtual bool virtual_time() const { return false; }
  /// A poll was empty. In virtual time the rank's own work is over now.
  virtual void on_empty_poll() {}
  /// Lets other tasks have this core.
  virtual void yield() {}
  /// Runnable tasks of this machine, this one included; INT_MAX if that is not known.
  virtual int runnable_tasks() { return 1; }
  /// How often the kernel has preempted this thread to run another.
  virtual int64_t preemptions() { return 0; }

  /// Until a watched descriptor is readable, `wake`, or the deadline (~0: none); or earlier, without a reason. Of one
  /// thread at a time; without the rank's lock. `now_ns`: the clock, where there is a deadline and no virtual time.
  virtual void sleep(uint64_t deadline_ns, uint64_t now_ns) = 0;
  /// As `sleep`, while the helper thread handles what comes on the paths: their descriptors are not watched by this.
  virtual void sleep_beside_helper(uint64_t deadline_ns, uint64_t now_ns) { sleep(deadline_ns, now_ns); }
  /// Ends the sleep of this moment, or the next one, until `forget_wake`. Under the rank's lock, as all that follows.
  virtual void wake() {}
  virtual void forget_wake() {}
  /// A sleep also ends when this descriptor is readable, until it is closed. It may be watched already.
  virtual void watch(int descriptor) {}
};

/// Nobody sleeps.
class NoWaiting final : public WaitPort {
 public:
  bool virtual_time() const override { return true; }
  void sleep(uint64_t, uint64_t) override {}
};

}  // namespace tern
