// The numbers of the waiting policies: of a rank that waits (wait_policy.h, adaptive_spin.h), and of the event thread
// (event_policy.h). One table each. From it come the struct, and the values with which tests explore the policies.
//
// A row: name, default, unit, other values that must be safe (they need not be quick), source of the number.
// Numbers that users may want to change are tunables instead (spin_us, yield_rounds).
#pragma once

#include <cstdint>

namespace tern {

// clang-format off
#define TERN_WAITING_LIMITS(X) \
  X(polls_per_look, 64, "polls", (1, 2), \
    "between two looks at the clock: 1 to 2 us over shared memory, where a poll takes 5 ns and a pause some 20; the " \
    "look takes 28 ns, so a message is found 0.4 ns later on average") \
  X(wake_ns, 40'000, "ns", (1, 1'000'000), \
    "waking a rank on another core: 34 to 40 us on a virtual machine, 5 to 50 elsewhere by the sleep " \
    "state of the core. A rank that polls for so long and then sleeps loses at most as much again (Karlin, Manasse, " \
    "McGeoch, Owicki, SODA 1990)") \
  X(switch_ns, 2'000, "ns", (1, 100'000), \
    "a yield to another thread of the rank on this core and one back, 1 us each. A thread that polls for so long " \
    "before it yields loses at most as much again (as for wake_ns)") \
  X(max_patience_ns, 320'000, "ns", (1, 1'000'000), \
    "most that a rank polls whose core is wanted: eight wake-ups, so that ranks that wake each other, one after the " \
    "other, stay awake; less than half of the shortest time slice") \
  X(patience_pays, 16, "waits", (1, 2), \
    "a trial of that patience that so many waits outlast has paid: each saved a wake-up or two, and it cost eight") \
  X(max_short_sleeps, 64, "sleeps", (1, 4), \
    "most short sleeps from a failed trial to the next, which costs each of them an eighth of a wake-up then") \
  X(core_taken_ns, 1'000'000, "ns", (1, 1'000'000'000), \
    "after a yield or a gap between two looks of this length, another task has computed on the core: the shortest " \
    "slices of Linux's scheduler are 0.7 ms on one core, 1.4 on two, 2.8 on eight and more; an interrupt, or a yield " \
    "among ranks that all wait, takes some microseconds") \
  X(first_wanted_ns, 50'000'000, "ns", (1, 1'000'000'000), \
    "how long a core counts as wanted by another task at first: a failed trial costs two time slices, 3 to 8 ms") \
  X(max_wanted_ns, 3'200'000'000, "ns", (1, 1'000'000'000), \
    "longest such time: the failed trials then take 0.1 to 0.3 % of the time") \
  X(sightings, 4, "yields", (1, 2), \
    "long yields in a row with strangers present before the policy believes that they stay: kernel threads and the " \
    "launcher want a core now and then, too (NPB's SP, class A, 4 ranks on 2 cores: 1 to 4 % slower with 1)") \
  X(yields_per_whole_round, 2, "yields", (1, 32), \
    "while others have their turns, 32 rounds (tcp_poll_interval) take too long: allreduce of 8 KiB over 2 hosts of " \
    "4 ranks on 2 cores took 309 us, and takes 60 with 1, 2 or 4; a hand-over inside a host 7.2 us, 8.8, 8.1, 8.0") \
  X(timed_yields, 8, "yields", (1, 2), \
    "one of so many quick yields is timed: two looks at the clock after each change of the running process take " \
    "0.08 of 1.3 us") \
  X(soon_yields, 1000, "yields", (1, 10), \
    "a trial that fails within so many yields counts as failed soon; until then every yield is timed") \
  X(first_sleeps, 32, "waits", (1, 2), \
    "waits that sleep at once beside strangers before yielding is tried again, doubled when that fails soon: among 8 " \
    "ranks on 2 cores that all wait, a hand-over by sleeping takes 25 us and one by yielding 1 us; a yield to a " \
    "task that computes takes milliseconds") \
  X(max_sleeps, 1024, "waits", (1, 64), \
    "most of them: a failed trial of four slices (6 to 16 ms) then takes 16 us of each wait") \
  X(spin_polls, 32, "polls", (1, 4), \
    "adaptive spin: some 0.8 us, for the partner's answer and its return from a yield of its own (8 and 16 help " \
    "pairs of 4 ranks on 2 cores in 3 and 4 runs of 9, 32 in 7; 64 costs rings of 8 and exchanges with two " \
    "neighbours a third)") \
  X(spin_trial_interval, 64, "waits", (1, 3), \
    "adaptive spin: a trial that fails costs its polls twice (spin_first_trust / spin_failure), 2 % of the time " \
    "of 64 waits that yield") \
  X(spin_first_trust, 8, "successes", (1, 4), \
    "adaptive spin: a trial ends after two failures") \
  X(spin_max_trust, 32, "successes", (4, 8), \
    "adaptive spin: after eight failures in a row it always ends") \
  X(spin_failure, 4, "successes", (1, 8), \
    "adaptive spin: successes that one empty spin outweighs; of the waits inside one collective operation of 4 ranks " \
    "on 2 cores half succeed, and the operation needs its yields nevertheless")

// Two defaults: if every rank has a core of its own, and if ranks share cores. There the thread takes its core from a
// rank, and a rank that is outside may only be waiting to be scheduled.
#define TERN_EVENT_LIMITS(X) \
  X(first_grace_ns, 50'000, 400'000, "ns", (1, 10'000'000), \
    "a rank away for less computes nothing worth a wake-up, which takes 30 to 40 us to another core; a transfer of " \
    "6 KiB at 1 Gbit/s takes 50") \
  X(max_grace_ns, 6'400'000, 25'600'000, "ns", (1, 50'000), \
    "two ticks take some 40 us from two ranks that exchange messages all the time: 0.6 %; ranks that share cores " \
    "lose more, since all of them tick") \
  X(soon_ns, 30'000, 400'000, "ns", (1, 1'000'000'000), \
    "an application that was back in less did not need the thread: the time of a wake-up; if cores are shared, of " \
    "another rank's turn") \
  X(soon_returns, 2, 2, "returns", (1, 10), \
    "an application that was back soon so often in a row is believed to stay inside: useless arming and disarming " \
    "costs 2 us, and what arrives meanwhile wakes the thread") \
  X(empty_polls, 4, 4, "polls", (1, 100), \
    "if so many polls move nothing although something is here, it is usually a flag in node memory that a thread of " \
    "the application waits for, and that thread needs the lock: the timer says when to look again") \
  X(idle_leaves, 64, 64, "calls", (1, 2), \
    "calls that leave nothing pending between two looks at the clock; asking takes 2-3 ns in each, the look 28") \
  X(quick_leave_ns, 3'000, 3'000, "ns", (0, 1'000'000'000), \
    "an application that leaves with nothing pending this often gets a running timer instead: one tick per grace (20 " \
    "us) costs less than 1000 questions") \
  X(later_ns, 100'000'000, 100'000'000, "ns", (1, 1'000'000), \
    "how soon the thread checks messages that are sent but not confirmed: their connection seldom breaks just then; " \
    "a tenth of the shortest timeout for a dead peer") \
  X(timer_ending_ns, 1'000'000, 1'000'000, "ns", (1, 100'000'000), \
    "a timer that ends in less counts as ended: on a virtual machine to set one takes up to 6 us")
// clang-format on

struct WaitingLimits {
#define TERN_MEMBER(name, initial, ...) uint64_t name = initial;
  TERN_WAITING_LIMITS(TERN_MEMBER)
#undef TERN_MEMBER
};

struct EventLimits {
#define TERN_MEMBER(name, own_core, shared_core, ...) uint64_t name = own_core;
  TERN_EVENT_LIMITS(TERN_MEMBER)
#undef TERN_MEMBER

  /// The defaults for ranks that share cores.
  static constexpr EventLimits shared_cores() {
    EventLimits limits;
#define TERN_MEMBER(name, own_core, shared_core, ...) limits.name = shared_core;
    TERN_EVENT_LIMITS(TERN_MEMBER)
#undef TERN_MEMBER
    return limits;
  }
};

}  // namespace tern
