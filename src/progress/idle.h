// What a rank does when a poll was empty: on a real machine spin, yield, sleep (progress/real_idle.h); in the simulator
// run the next event.
#pragma once

#include <cstdint>

#include "progress/wait_policy.h"

namespace tern {

class ProgressEngine;

/// What a rank waits for. Refers to the caller's predicate, which must outlive it.
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
  /// `wait.empty` is at least 1. Returns when polling again makes sense, or when `done` is true. Before a sleep `done`
  /// is asked after the last look at the paths, since it may depend on changes that no poll reports.
  virtual void relax(ProgressEngine& engine, Wait& wait, const Condition& done) = 0;
  /// A poll of a long wait has found something, or the wait is over.
  virtual void found(ProgressEngine& engine, Wait& wait) {}
  /// After the last relax of a wait: its thread will not drive any more.
  virtual void end_wait(ProgressEngine& engine) {}
  /// Wakes those threads of this rank in relax whose conditions are true. Not from inside of a poll.
  virtual void call_ready(ProgressEngine& engine) {}
  /// The condition of a thread in relax may be true now: makes somebody ask it soon. From anywhere under the rank's
  /// lock.
  virtual void wake(ProgressEngine& engine) {}
  /// A call that only looks (MPI_Test) was empty, and so were the kLooks - 1 before it.
  virtual void on_empty_looks(ProgressEngine& engine) {}
  static constexpr uint32_t kLooks = 16;  ///< asking the policy takes some ns, a loop of MPI_Test 10 ns a call

  /// Another thread leaves the library while one is asleep on the paths: what it has begun may have an earlier
  /// deadline.
  virtual void note_deadline() {}

  /// A sleep also ends when this descriptor is readable, until it is closed.
  virtual void watch(int descriptor) {}

  /// So many empty polls before each call of relax it would only pause the processor; the engine does that without a
  /// call. 0 if other threads or ranks need the core (a lock to give up, more ranks than cores, the simulator).
  uint32_t pauses = 0;

  /// While it is not 0 no thread of this rank sleeps in relax: who sends it messages expects that somebody polls.
  /// Changed and read under the rank's lock only.
  uint32_t kept_awake = 0;

  /// How many threads of this rank are in relax until they are called, most of them asleep; one may be asleep on the
  /// paths. Changed and read under the rank's lock only.
  int sleepers = 0;
};

}  // namespace tern
