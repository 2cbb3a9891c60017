// What a rank does when a poll found nothing: on a real machine spin, yield, sleep (progress/real_idle.h); in the
// simulator give the turn to the next event.
#pragma once

#include <cstdint>

namespace tern {

class ProgressEngine;

class Idle {
 public:
  virtual ~Idle() = default;
  /// `fruitless`: how many polls in a row found nothing (1 for the first). Returns when polling again makes sense.
  virtual void relax(ProgressEngine& engine, uint32_t fruitless) = 0;
  /// Wakes a thread of this rank that sleeps in relax (another thread has completed its request).
  virtual void wake() {}

  /// For so many fruitless polls in a row relax would only pause the processor: the engine does that by itself, without
  /// the call. 0 where other threads or ranks must get the turn (a lock to give up, more ranks than cores, the simulator).
  uint32_t pauses = 0;

  /// How many threads of this rank sleep in relax. Changed and read under the rank's lock only.
  int sleepers = 0;
};

/// The rank's lock as Idle sees it: given up while spinning or asleep, so that other threads of the rank get in.
class Releasable {
 public:
  /// Gives the lock up completely, however deeply held; returns the depth for `reacquire`. 0: there is no lock (single-threaded).
  virtual uint32_t release_all() = 0;
  virtual void reacquire(uint32_t depth) = 0;

 protected:
  ~Releasable() = default;
};

}  // namespace tern
