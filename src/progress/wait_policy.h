// What a thread that waits inside the library does after an empty poll: a pure table, carried out by the
// engine (waiting.cc). It has no clock: each event says what happened and, if it
// matters, when; the answer says what to do next, or what to find out.
//
//   the core    event                                              step
//   own         a poll was empty, less than polls_per_look         pause
//                 ... every polls_per_look                         read_clock
//               the clock: waited less than spin_us                pause (at wake_ns: count_preemptions, the base)
//                 ... spin_us                                      sleep
//                 ... core_taken_ns since the last look            count_preemptions
//                 ... or before the wait was over                  count_preemptions
//               the kernel ran another task meanwhile              the core is wanted, for first_wanted_ns
//   wanted      waited less than the patience                      pause
//                 ... the patience                                 sleep
//               a sleep lasted less than two wake-ups              a trial: the patience is max_patience_ns
//               slept nevertheless                                 it is wake_ns again, to the next trial
//   crowded     instead of a pause: a thread has been called       yield
//               ... another thread is awake, waited switch_ns      yield
//   shared      a poll was empty, and spinning pays                pause (adaptive_spin.h)
//                 ... yields left                                  yield, or timed_yield
//                 ... none left                                    sleep
//               a timed yield took core_taken_ns                   on_tasks
//               more tasks than awake ranks, `sightings` times     strangers, for first_sleeps waits
//   strangers   a poll was empty                                   sleep
//   any         a poll was empty, the launcher ends the wait       sleep
//
// `own`: no more ranks than cores. Another task may want the core nevertheless: another job, a compiler, a second
// program in the same container, a rank of this job bound to the same core. Then a rank that polls alternates with that
// task in time slices, and its message waits for the end of the other's slice; a rank that sleeps is soon scheduled
// when it is woken. So for a while it polls no longer than a wake-up takes. Two ranks that both sleep answer later than
// that. They would sleep in each wait, though either would hear soon if it polled. So after a short sleep a rank tries
// to poll longer, for some wake-ups. If it must sleep nevertheless, its partner probably waits for this core, and
// polling only delays the answer. Then trials become rare. After a while it tries without a limit again, at growing
// intervals while that fails. (If the processor of a virtual machine stood still, that is no sign: no task here has run
// instead.) With several threads of a rank (MPI_THREAD_MULTIPLE) no thread polls for longer than the patience either.
// While more of them are awake than the rank has cores (`crowded`), it yields instead of pausing: at once to a thread
// that has been called, which would wait for the end of this one's slice; to others after it has polled for as long as
// two switches take. (If the answer comes earlier than that, two threads of two ranks go on alone: 0.5 us for an
// exchange over shared memory, and 3 us with a yield in each.)
//
// `shared`: more ranks than cores. Yielding is right if all ranks wait. If others compute on the same cores, each yield
// costs a slice of theirs (milliseconds), while a sleeper that is woken is soon scheduled (300 MPI_Comm_split of 4
// ranks beside 15 compilers on 2 cores: 1.4 s by yielding, 0.1 s by sleeping). The exception is that the job's own
// ranks compute: everybody waits for them, and sleeping only leaves the cores idle between wake-ups (NPB's BT, class W,
// 16 ranks on 2 cores: 1.37 s by sleeping, 0.84 s by yielding). `strangers`: tasks of other programs compete for the
// cores.
//
// Thread rule: none; under the rank's lock. Times: a monotonic clock's, in ns.
#pragma once

#include <cstdint>

#include "base/tunables.h"
#include "progress/adaptive_spin.h"
#include "progress/waiting_limits.h"

namespace tern {

/// Who ends a wait: a rank, or the launcher, a process on this machine that has no core of its own.
enum class EndedBy : uint8_t { ranks, launcher };

/// One wait of one thread, between two polls that found something. Long: preemptions were counted.
struct Wait {
  EndedBy ended_by = EndedBy::ranks;
  uint32_t empty = 0;        ///< empty polls in a row
  uint64_t since_ns = 0;     ///< the first look at the clock; 0: none yet
  uint64_t looked_ns = 0;    ///< the last look, if only polls followed it; else 0
  uint64_t crowded_ns = 0;   ///< since when other threads of this rank have wanted its core; 0: not known
  int64_t preemptions = -1;  ///< of this thread at the last count; -1: not counted yet

  bool is_long() const { return preemptions >= 0; }
};

class WaitPolicy {
 public:
  enum class Step : uint8_t {
    pause,              ///< the processor for a moment; then poll
    yield,              ///< sched_yield; then poll
    timed_yield,        ///< sched_yield, report how long it took (on_yielded); then poll
    sleep,              ///< on the paths, or until called by the thread that does; then poll
    read_clock,         ///< on_clock
    count_preemptions,  ///< on_preemptions: how often the kernel has preempted this thread
  };
  struct Setup {
    bool oversubscribed = false;  ///< more ranks than cores on this node
    int ranks = 1;                ///< on this node
    int cores = 1;                ///< of this rank
    uint64_t spin_ns = 0;         ///< tunable spin_us
    uint64_t yields = 0;          ///< tunable yield_rounds
    WaitingLimits limits;

    static Setup of(const Tunables& tunables, bool oversubscribed, int ranks = 1, int cores = 1);
  };

  explicit WaitPolicy(const Setup& setup);
  WaitPolicy(const WaitPolicy&) = delete;
  WaitPolicy& operator=(const WaitPolicy&) = delete;

  bool oversubscribed() const { return setup_.oversubscribed; }
  /// For so many empty polls after a step the next step is a pause, so the policy need not be asked.
  uint32_t pauses() const {
    return setup_.oversubscribed || setup_.spin_ns == 0 ? 0 : uint32_t(limits_.polls_per_look) - 1;
  }

  /// A poll of this wait was empty (counted in `wait.empty`). `threads`: several threads of this rank may be inside.
  Step on_empty(Wait& wait, bool threads);
  /// Whether this rank has cores of its own, and fewer than threads that are awake: this one and `others`.
  bool crowded(int others) const { return !setup_.oversubscribed && others >= setup_.cores; }
  /// What replaces a pause then. `called`: one of the others has been called, so its condition is true.
  Step on_crowded(Wait& wait, uint64_t now_ns, bool called) const;
  /// Also called when a long wait is over (the step is then ignored): the gap at its end counts, too.
  Step on_clock(Wait& wait, uint64_t now_ns, bool threads);
  Step on_preemptions(Wait& wait, int64_t count, bool threads);
  /// Whether the round after the `yields`-th yield polls every path, also those that others poll seldom.
  bool wants_whole_round(uint64_t yields) const { return yields % limits_.yields_per_whole_round == 0; }
  /// A timed yield is over. True: count the machine's runnable tasks (on_tasks).
  bool on_yielded(uint64_t took_ns) const { return took_ns > limits_.core_taken_ns; }
  /// `runnable`: runnable tasks of the machine, this one included; `turning`: threads of this rank that give their
  /// turn; `asleep`: the job's other ranks on this machine that sleep.
  void on_tasks(int runnable, int turning, int asleep);
  /// A sleep on the paths is over.
  void on_slept(uint64_t lasted_ns);
  /// A wait that had empty polls is over.
  void on_wait_over();
  /// A call that only looks (MPI_Test) was empty, and so were those before it: pause (do nothing), yield or
  /// timed_yield.
  Step on_empty_look(bool threads);

 private:
  Step yield();
  Step poll_or_sleep(const Wait& wait, uint64_t now_ns, bool threads) const;

  const Setup setup_;
  const WaitingLimits& limits_ = setup_.limits;
  // With a core of its own:
  uint64_t wanted_until_ns_ = 0;      ///< until then another task is thought to want the core
  uint64_t wanted_for_ns_ = 0;        ///< how long it was thought to be wanted the last time; 0: never
  uint64_t patience_ns_;              ///< how long a rank polls whose core is wanted: wake_ns, or in a trial more
  uint64_t waits_of_trial_ = 0;       ///< that have ended since its beginning
  uint64_t short_sleeps_ = 0;         ///< since the last trial
  uint64_t short_sleeps_wanted_ = 1;  ///< before the next one
  // Shared cores:
  AdaptiveSpin spin_;
  uint64_t yields_since_ = 0;  ///< yields since strangers were found
  uint64_t sightings_ = 0;     ///< long yields with strangers present, since the last without
  uint64_t sleeps_left_ = 0;   ///< how many more waits sleep at once
  uint64_t last_sleeps_;       ///< the last initial value of sleeps_left_
};

}  // namespace tern
