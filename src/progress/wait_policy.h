// What a thread that waits inside the library does when a poll was empty: a pure table, carried out by RealIdle
// (progress/real_idle.h) and the simulator (sim/rank_time.h). It has no clock and asks nobody: each event says what
// happened and, where it matters, when; the answer says what to do next, or what to find out.
//
//   the core    event                                              step
//   own         a poll was empty, less than polls_per_look         pause
//                 ... every polls_per_look                         read_clock
//               the clock: waited less than spin_us                pause (at wake_ns: count_preemptions, the base)
//                 ... spin_us                                      sleep
//                 ... core_taken_ns since the last look            count_preemptions
//                 ... or before the wait was over                  count_preemptions
//               the kernel ran somebody else meanwhile             the core is wanted, for first_wanted_ns
//   wanted      waited less than wake_ns                           pause
//                 ... wake_ns                                      sleep
//   shared      a poll was empty, and spinning pays                pause (adaptive_spin.h)
//                 ... yields left                                  yield, or timed_yield
//                 ... none left                                    sleep
//               a timed yield took core_taken_ns                   count_tasks
//               more tasks than ranks, `sightings` times           strangers, for first_sleeps waits
//   strangers   a poll was empty                                   sleep
//
// `own`: no more ranks than cores. Somebody else may want the core nevertheless: another job, a compiler, a second
// program in the same container, a rank of this job that is bound to the same core. Then a rank that polls takes turns
// with them, a time slice each, and its message waits for the end of theirs, while one that sleeps is soon scheduled
// when it is woken. So for a while it polls no longer than a wake-up takes; then it tries again, less and less often
// while that fails. (That the processor of a virtual machine stood still is no sign: nobody here has gained by it.)
// Among several threads of a rank (MPI_THREAD_MULTIPLE) nobody polls for longer either.
//
// `shared`: more ranks than cores. Yielding is for ranks that all wait. Where others compute on the same cores, each
// yield costs a slice of theirs (milliseconds), while a sleeper that is woken is soon scheduled (300 MPI_Comm_split of
// 4 ranks beside 15 compilers on 2 cores: 1.4 s by yielding, 0.1 s by sleeping). Unless those who compute are the job's
// own ranks: they are what everybody waits for, and sleeping in turn only lets the cores go idle between wake-ups
// (NPB's BT, class W, 16 ranks on 2 cores: 1.37 s by sleeping, 0.84 s by yielding).
//
// Thread rule: none; under the rank's lock. Times: a monotonic clock's, in ns.
#pragma once

#include <cstdint>

#include "progress/adaptive_spin.h"
#include "progress/waiting_limits.h"

namespace tern {

/// One wait of one thread; between two polls that found something. Long: since preemptions were counted.
struct Wait {
  uint32_t empty = 0;        ///< so many polls in a row have found nothing
  uint64_t since_ns = 0;     ///< the first look at the clock; 0: none yet
  uint64_t looked_ns = 0;    ///< the last look, if nothing but polls came after it; else 0
  int64_t preemptions = -1;  ///< of this thread when they were counted last; -1: not yet

  bool is_long() const { return preemptions >= 0; }
};

class WaitPolicy {
 public:
  enum class Step : uint8_t {
    pause,              ///< the processor for a moment; then poll
    yield,              ///< the core to whoever wants it; then poll
    timed_yield,        ///< and say how long it took (on_yielded)
    sleep,              ///< on the paths, or until called by the thread that does; then poll
    read_clock,         ///< on_clock
    count_preemptions,  ///< on_preemptions: how often the kernel has taken the processor from this thread
  };
  struct Setup {
    bool oversubscribed = false;  ///< more ranks than cores on this node
    int ranks = 1;                ///< on this node
    uint64_t spin_ns = 0;         ///< tunable spin_us
    uint64_t yields = 0;          ///< tunable yield_rounds
    WaitingLimits limits;
  };

  explicit WaitPolicy(const Setup& setup);
  WaitPolicy(const WaitPolicy&) = delete;
  WaitPolicy& operator=(const WaitPolicy&) = delete;

  /// So many empty polls after a step the next step is a pause whatever happens.
  uint32_t pauses() const { return oversubscribed_ || spin_ns_ == 0 ? 0 : uint32_t(limits_.polls_per_look) - 1; }

  /// A poll of this wait was empty (`wait.empty` counts it). `threads`: several threads of this rank may be inside.
  Step on_empty(Wait& wait, bool threads);
  /// Also once more when a long wait is over, whose last step then does not count: the gap may have been the last of
  /// it.
  Step on_clock(Wait& wait, uint64_t now_ns, bool threads);
  Step on_preemptions(Wait& wait, int64_t count, bool threads);
  /// A timed yield is over. True: count the machine's runnable tasks (on_tasks).
  bool on_yielded(uint64_t took_ns) const { return took_ns > limits_.core_taken_ns; }
  /// `runnable`: tasks of the machine that run or could, this one included; `turning`: threads of this rank that have
  /// given their turn away.
  void on_tasks(int runnable, int turning);
  /// A wait that had empty polls is over.
  void on_wait_over();
  /// A call that only looks (MPI_Test) has found nothing, and so did those before it: pause (nothing is to be done),
  /// yield or timed_yield.
  Step on_empty_look(bool threads);

 private:
  Step yield();
  Step poll_or_sleep(const Wait& wait, uint64_t now_ns, bool threads) const;

  const WaitingLimits limits_;
  const bool oversubscribed_;
  const int ranks_;
  const uint64_t spin_ns_, yields_;
  // With a core of its own:
  uint64_t wanted_until_ns_ = 0;  ///< somebody else wants the core, so far as is known
  uint64_t wanted_for_ns_ = 0;    ///< for so long it was thought to be wanted the last time; 0: never
  // Shared cores:
  AdaptiveSpin spin_;
  uint64_t yields_since_ = 0;  ///< strangers were found
  uint64_t sightings_ = 0;     ///< long yields with strangers about, since the last without
  uint64_t sleeps_left_ = 0;   ///< so many waits sleep at once
  uint64_t last_sleeps_;       ///< what sleeps_left_ was set to last
};

}  // namespace tern
