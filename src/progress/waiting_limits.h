// The numbers of the policies of waiting: of a rank that waits (wait_policy.h, adaptive_spin.h), and of the event
// thread (event_policy.h). One table each, from which come the struct, and the values with which tests explore the
// policies.
//
// A row: name, default, unit, other values that must be safe (the defaults are the quick ones), source of the number.
// What a user may want to change is a tunable instead (spin_us, yield_rounds).
#pragma once

#include <cstdint>

namespace tern {

// clang-format off
#define TERN_WAITING_LIMITS(X) \
  X(polls_per_look, 64, "polls", (1, 2), \
    "from one look at the clock to the next: 1 to 2 us over shared memory, where a poll takes 5 ns and a pause some " \
    "20; the clock takes 28, so that a message is found 0.4 ns later on average") \
  X(wake_ns, 40'000, "ns", (1, 1'000'000), \
    "waking a rank on another core: 34 to 40 us on a virtual machine, 5 to 50 elsewhere by how deeply the core " \
    "sleeps. Who polls for so long and then sleeps loses at most as much again (Karlin, Manasse, McGeoch, Owicki, " \
    "SODA 1990)") \
  X(core_taken_ns, 1'000'000, "ns", (1, 1'000'000'000), \
    "a yield or a gap between two looks that takes so long gave the core to somebody who computes: the shortest " \
    "slices of Linux's scheduler are 0.7 ms on one core, 1.4 on two, 2.8 on eight and more; an interrupt, or a yield " \
    "among ranks that all wait, takes some microseconds") \
  X(first_wanted_ns, 50'000'000, "ns", (1, 1'000'000'000), \
    "so long a core counts as wanted by somebody else at first: a failed trial costs two time slices, 3 to 8 ms") \
  X(max_wanted_ns, 3'200'000'000, "ns", (1, 1'000'000'000), \
    "at most: the failed trials then take 0.1 to 0.3 % of the time") \
  X(sightings, 4, "yields", (1, 2), \
    "so many long yields with strangers about, one after the other, must have had somebody who stays: the kernel's " \
    "threads and the launcher want a core now and then, too (NPB's SP, class A, 4 ranks on 2 cores: 1 to 4 % slower " \
    "with one)") \
  X(timed_yields, 8, "yields", (1, 2), \
    "of quick yields every so many is timed: two looks at the clock after each change of the running process take " \
    "0.08 of 1.3 us") \
  X(soon_yields, 1000, "yields", (1, 10), \
    "a trial that failed within so many yields failed soon; and until then all are timed") \
  X(first_sleeps, 32, "waits", (1, 2), \
    "so many waits sleep at once beside strangers before yielding is tried again, doubled when that fails soon: " \
    "among 8 ranks on 2 cores that all wait a hand-over by sleeping takes 25 us and one by yielding 1, a yield in " \
    "the wrong company milliseconds") \
  X(max_sleeps, 1024, "waits", (1, 64), \
    "at most: a failed trial of four slices (6 to 16 ms) then takes 16 us of each wait") \
  X(spin_polls, 32, "polls", (1, 4), \
    "adaptive spin: some 0.8 us, the partner's answer and its way back from a yield of its own (8 and 16 help pairs " \
    "of 4 ranks on 2 cores in 3 and 4 runs of 9, 32 in 7; 64 costs rings of 8 and exchanges with two neighbours a " \
    "third)") \
  X(spin_trial_interval, 64, "waits", (1, 3), \
    "adaptive spin: a trial that fails costs its polls twice (spin_first_trust / spin_failure), 2 % of what 64 waits " \
    "take that yield") \
  X(spin_first_trust, 8, "successes", (1, 4), \
    "adaptive spin: a trial ends after two failures") \
  X(spin_max_trust, 32, "successes", (4, 8), \
    "adaptive spin: after eight failures in a row it always ends") \
  X(spin_failure, 4, "successes", (1, 8), \
    "adaptive spin: what an empty spin weighs; of the waits inside one collective operation of 4 ranks on 2 cores " \
    "half succeed, and the operation needs its yields nevertheless")

// Two defaults: where every rank has a core of its own, and where ranks share cores, so that the thread takes its core
// from a rank, and a rank that is away may only wait for its turn.
#define TERN_EVENT_LIMITS(X) \
  X(first_grace_ns, 50'000, 400'000, "ns", (1, 10'000'000), \
    "a rank away for less computes nothing worth a wake-up, which takes 30 to 40 us to another core; a transfer of " \
    "6 KiB at 1 Gbit/s takes 50") \
  X(max_grace_ns, 6'400'000, 25'600'000, "ns", (1, 50'000), \
    "two ticks take some 40 us from two ranks that exchange messages all the time: 0.6 %; from ranks that share " \
    "cores more, and all of them tick") \
  X(soon_ns, 30'000, 400'000, "ns", (1, 1'000'000'000), \
    "an application that was back in less could as well have done without: what a wake-up takes; where cores are " \
    "shared, a turn") \
  X(armed_in_vain, 2, 2, "returns", (1, 10), \
    "arming and disarming in vain cost 2 us, and what arrives meanwhile wakes the thread: back soon so often in a " \
    "row, and the application is believed to stay inside") \
  X(empty_polls, 4, 4, "polls", (1, 100), \
    "what is here and is not moved by so many polls is mostly a flag that a thread of the application waits for " \
    "(node memory), which needs the lock to see it: the timer says when to look again") \
  X(idle_leaves, 64, 64, "calls", (1, 2), \
    "to ask what is pending takes 2-3 ns of each call that leaves nothing; as often between two looks at the clock") \
  X(quick_leave_ns, 3'000, 3'000, "ns", (0, 1'000'000'000), \
    "who leaves with nothing pending every so many ns or more often would rather have a timer that runs: a tick a " \
    "grace (20 us) costs less than 1000 questions") \
  X(later_ns, 100'000'000, 100'000'000, "ns", (1, 1'000'000), \
    "how soon a look is taken at what is only not known to have arrived: its connection seldom breaks just then; a " \
    "tenth of what the shortest timeout for a dead peer is set to") \
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

  /// For ranks that share cores.
  static constexpr EventLimits shared_cores() {
    EventLimits limits;
#define TERN_MEMBER(name, own_core, shared_core, ...) limits.name = shared_core;
    TERN_EVENT_LIMITS(TERN_MEMBER)
#undef TERN_MEMBER
    return limits;
  }
};

}  // namespace tern
