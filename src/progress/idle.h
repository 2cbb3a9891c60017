// What a rank does when a poll found nothing: on a real machine spin, yield, sleep (progress/real_idle.h); in the
// simulator give the turn to the next event.
#pragma once

#include <cstdint>

#include "progress/wait_policy.h"

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
  /// `wait.empty` is at least 1. Returns when polling again makes sense, or when `done` is: whoever sleeps asks it
  /// after the last look at the paths, since not every change that it may be about is something that a poll has
  /// handled.
  virtual void relax(ProgressEngine& engine, Wait& wait, const Condition& done) = 0;
  /// A poll of a long wait has found something, or the wait is over.
  virtual void found(ProgressEngine& engine, Wait& wait) {}
  /// Of the last relax of a wait: it is over, and its thread drives no more.
  virtual void end_wait(ProgressEngine& engine) {}
  /// Calls those threads of this rank that wait in relax and need not any more. Asks their conditions: not from inside
  /// of a poll.
  virtual void call_ready(ProgressEngine& engine) {}
  /// What a thread waits for in relax may have happened: has somebody ask soon. From anywhere under the rank's lock.
  virtual void wake(ProgressEngine& engine) {}
  /// A call that only looks (MPI_Test) has looked in vain, and so did those before it, kLooks of them.
  virtual void looked_in_vain(ProgressEngine& engine) {}
  static constexpr uint32_t kLooks = 16;

  /// Another thread leaves the library while one is asleep on the paths: what it has begun may have a deadline.
  virtual void note_deadline() {}

  /// A sleep ends when this descriptor is readable, too, until it is closed.
  virtual void watch(int descriptor) {}

  /// So many empty polls before each call of relax it would only pause the processor: the engine does that by itself.
  /// 0 where other threads or ranks must get the turn (a lock to give up, more ranks than cores, the simulator).
  uint32_t pauses = 0;

  /// How many threads of this rank stay in relax until they are called, most of them asleep: one of them may be asleep
  /// on the paths. Changed and read under the rank's lock only.
  int sleepers = 0;
};

}  // namespace tern
