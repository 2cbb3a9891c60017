// EventPort: the kernel's part of an event thread: thread, timer, and the sleep on the paths' descriptors. Real
// (event_thread.h) or in virtual time (sim/event_thread.h).
#pragma once

#include <cstdint>

namespace tern {

/// What the thread did when it was woken.
enum class Woken : uint8_t {
  idle,      ///< nothing
  worked,    ///< polled the paths
  answered,  ///< also sent answers to the origins of one-sided operations
};

/// Whom the thread calls.
class EventClient {
 public:
  /// The thread's sleep is over: `tick`: the timer has ended; `ready`: a path is readable. Either may be a false alarm.
  virtual Woken on_wake(bool tick, bool ready) = 0;
  /// One turn of the thread while it polls all the time (EventPort::poll_always); whether anything was handled.
  virtual bool on_turn() = 0;

 protected:
  ~EventClient() = default;
};

/// A message that the event thread cannot take for lack of memory is lost, and a rank would wait for it for ever. So
/// the process ends with this text (base/limits.h, end_without_memory).
inline constexpr const char* kInTheBackground = "moving messages while the application computes";

class EventPort {
 public:
  virtual ~EventPort() = default;

  /// From now on the thread calls `turns.on_wake` when the timer has ended or a watched path is readable.
  virtual void start(EventClient& turns) = 0;
  /// After this the thread makes no more calls. Not from inside the thread; not under the rank's lock.
  virtual void stop() = 0;
  /// The one timer, set from any thread; setting it again replaces its end.
  virtual void set_timer(uint64_t after_ns) = 0;
  /// Arrivals on the paths' descriptors wake the thread, once for each call. Under the rank's lock.
  virtual void watch_paths(bool on) = 0;
  /// While `on` the thread calls `turns.on_turn` again and again instead of sleeping. Inside.
  virtual void poll_always(bool on) = 0;
  /// Makes every running thread of the process pass a full memory barrier. Only if has_barrier; else the rank's lock is
  /// a mutex.
  virtual void barrier() = 0;
  virtual bool has_barrier() const = 0;
};

}  // namespace tern
