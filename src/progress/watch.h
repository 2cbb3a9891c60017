// An observer of a rank that waits (the hang report): called between empty polls.
#pragma once

#include <cstdint>

namespace tern {

class WaitWatch {
 public:
  /// The rank has had `empty` empty polls in a row and may have slept. Under the rank's lock.
  virtual void on_empty_polls(uint32_t empty) = 0;
  /// When it wants to be called although nothing happens: clock time, or ~0.
  virtual uint64_t next_deadline_ns() const = 0;

 protected:
  ~WaitWatch() = default;
};

}  // namespace tern
