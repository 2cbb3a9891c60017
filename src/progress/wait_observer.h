// An observer of a rank that waits (the hang report): called between empty polls.
#pragma once

#include <cstdint>

namespace tern {

class WaitObserver {
 public:
  /// The rank has had `empty` empty polls in a row and may have slept. Under the rank's lock.
  virtual void on_empty_polls(uint32_t empty) = 0;
  /// The clock was read between empty polls, which may be far apart where ranks share cores.
  virtual void on_clock(uint64_t now_ns) = 0;
  /// This rank will sleep now: an end of the sleep after next_deadline_ns is wanted.
  virtual void on_sleep() = 0;
  /// A wait is over that had empty polls.
  virtual void on_wait_over() = 0;
  /// When it wants to be called although nothing happens: clock time, or ~0.
  virtual uint64_t next_deadline_ns() const = 0;

 protected:
  ~WaitObserver() = default;
};

}  // namespace tern
