// EventPort: the kernel's part of an event thread: thread, timer, and the sleep on the paths' descriptors. Real
// (event_thread.h) or in virtual time (sim/event_thread.h).
#pragma once

#include <cstdint>

namespace tern {

class EventHandler;

/// A message that the event thread cannot take for lack of memory is lost, and a rank would wait for it for ever. So
/// the process ends with this text (base/limits.h, end_without_memory).
inline constexpr const char* kInTheBackground = "moving messages while the application computes";

class EventPort {
 public:
  virtual ~EventPort() = default;

  /// From now on the thread calls `handler.on_wake` when the timer has ended or a watched path is readable.
  virtual void start(EventHandler& handler) = 0;
  /// After this the thread makes no more calls. Not from inside the thread; not under the rank's lock.
  virtual void stop() = 0;
  /// The one timer, set from any thread; setting it again replaces its end.
  virtual void set_timer(uint64_t after_ns) = 0;
  /// Arrivals on the paths' descriptors wake the thread, once for each call. Under the rank's lock.
  virtual void watch_paths(bool on) = 0;
  /// While `on` the thread calls `handler.on_turn` again and again instead of sleeping. Inside.
  virtual void poll_always(bool on) = 0;
  /// Makes every running thread of the process pass a full memory barrier. Only if has_barrier; else the rank's lock is
  /// a mutex.
  virtual void barrier() = 0;
  virtual bool has_barrier() const = 0;
};

}  // namespace tern
