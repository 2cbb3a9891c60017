// What a rank does when a poll found nothing: on a real machine spin, yield, sleep (progress/real_idle.h); in the
// simulator give the turn to the next event.
#pragma once

#include <cstdint>

namespace tern {

class ProgressEngine;

/// What a rank waits for: refers to the caller's predicate, and is no longer-lived than that.
class Condition {
 public:
  template <typename Predicate>
  explicit Condition(Predicate& predicate)
      : predicate_(&predicate), ask_([](void* it) -> bool { return (*static_cast<Predicate*>(it))(); }) {}
  bool operator()() const { return ask_(predicate_); }

 private:
  void* predicate_;
  bool (*ask_)(void*);
};

class Idle {
 public:
  virtual ~Idle() = default;
  /// `fruitless`: how many polls in a row found nothing (1 for the first). Returns when polling again makes sense, or when
  /// `done` is: whoever sleeps asks it after the last look at the paths, since not every change that it may be about is something
  /// that a poll has handled.
  virtual void relax(ProgressEngine& engine, uint32_t fruitless, const Condition& done) = 0;
  /// Wakes a thread of this rank that sleeps in relax (another thread has completed its request).
  virtual void wake() {}

  /// A sleep ends when this descriptor is readable, too, until it is closed.
  virtual void watch(int descriptor) {}

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
