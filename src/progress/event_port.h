// EventPort: the kernel's part of an event thread: a thread, a timer, and the sleep on the paths' descriptors. Real
// (event_thread.h) or in virtual time (sim/event_thread.h).
#pragma once

#include <cstdint>

namespace tern {

class EventHandler;

/// A message that was not taken for want of memory is lost, and with it whoever waits for it: what the process then
/// ends with (base/limits.h, end_without_memory).
inline constexpr const char* kInTheBackground = "moving messages while the application computes";

class EventPort {
 public:
  virtual ~EventPort() = default;

  /// From now on the thread calls `handler.on_wake` whenever the timer has ended or a path that it watches is readable.
  virtual void start(EventHandler& handler) = 0;
  /// It calls no more when this returns. Not from inside the thread; not under the rank's lock.
  virtual void stop() = 0;
  /// The one timer, from anywhere; setting it again replaces its end.
  virtual void set_timer(uint64_t after_ns) = 0;
  /// The descriptors of the paths wake the thread, once for each call. Under the rank's lock.
  virtual void watch_paths(bool on) = 0;
  /// Makes every running thread of the process pass a full memory barrier. Only where has_barrier says so; else the
  /// rank's lock is a mutex.
  virtual void barrier() = 0;
  virtual bool has_barrier() const = 0;
};

}  // namespace tern
