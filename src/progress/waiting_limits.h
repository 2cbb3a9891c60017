// The numbers of the policies of waiting (wait_policy.h, adaptive_spin.h): one table, from which come the
// struct, and the values with which tests explore the policies.
//
// A row: name, default, unit, other values that must be safe (the defaults are the quick ones), source of the number.
// What a user may want to change is a tunable instead (spin_us, yield_rounds).
#pragma once

#include <cstdint>
#include <span>

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
// clang-format on

struct WaitingLimits {
#define TERN_MEMBER(name, initial, ...) uint64_t name = initial;
  TERN_WAITING_LIMITS(TERN_MEMBER)
#undef TERN_MEMBER
};

}  // namespace tern
