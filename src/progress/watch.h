// A look over the shoulder of a rank that waits: asked between fruitless polls.
#pragma once

#include <cstdint>

namespace tern {

class WaitWatch {
 public:
  /// The rank has polled in vain `fruitless` times in a row and may have slept. Under the rank's lock.
  virtual void on_fruitless(uint32_t fruitless) = 0;
  /// When it wants to be asked although nothing happens: clock time, or ~0.
  virtual uint64_t next_deadline_ns() const = 0;

 protected:
  ~WaitWatch() = default;
};

}  // namespace tern
