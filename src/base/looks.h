// Looks: how often a rank looks at something in a row before it does something dearer: waits through its engine (which
// polls everything between two looks), asks the kernel, gives its core away. One table for all of them; the policies
// of waiting and sleeping have their own (progress/waiting_limits.h).
//
//   if (look_at<Look::heartbeat>([&] { return beats(); })) ...        the engine's look_closely, where a rank that
//                                                                     waits has its core for itself
#pragma once

#include <cstdint>

#include "base/hints.h"

namespace tern {

/// Between two looks. `none`: the look itself takes long enough, or pauses.
enum class Pause : uint8_t { none, brief, processor };

// clang-format off
// A row: name, looks, what is between two of them, source of the number.
#define TERN_LOOKS(X) \
  X(message, 128, brief, \
    "for the next message of a sender, in its ring: 2.5 us, the round trip of 2 KiB") \
  X(team, 128, brief, \
    "at a line that a member of a node's team writes: its answer takes some 0.1 us, a line there and back") \
  X(window_count, 128, brief, \
    "at a count of an epoch, in memory that another rank writes: some 0.1 us, if it comes at once") \
  X(window_answer, 128, brief, \
    "at the cells in which targets answer: some 0.2 us, if they answer at once") \
  X(sender, 3, none, \
    "whether a sender is there to stream before a receiver fetches alone: some 0.4 us each over shared memory (both " \
    "computing, 16 KiB to 256 KiB: 1.7 to 1.9 us less than with one)") \
  X(heartbeat, 8, none, \
    "at a peer's heartbeat, some 40 ns apart: a peer that polls changes it every 20 to 100 ns, and with every chunk " \
    "of a stream") \
  X(accumulate, 2000, processor, \
    "at the word of a node's accumulates: the longest of one piece takes some 50 us; a rank that waits longer shares " \
    "its core with the other, and yields") \
  X(helper, 500, processor, \
    "whether the event thread has left: some 10 to 20 us; a wake-up takes 34 to 40") \
  X(lock, 500, processor, \
    "whether another thread of the rank has left the library: some 10 to 20 us; a wake-up takes 34 to 40") \
  X(life_line, 8192, none, \
    "empty polls between two looks at the life lines of a node (a system call, 0.15 us): a lost peer is noticed " \
    "within about 0.1 ms of spinning, at less than 1 % of its cost") \
  X(owner, 1000, none, \
    "yields between two looks whether the owner of an accumulate still lives (a system call)") \
  X(turn, 500, processor, \
    "empty turns of an event thread that polls all the time, before it yields after each: as long as a wake-up") \
  X(test, 16, none, \
    "empty calls that only look (MPI_Test, 10 ns each) between two questions to the waiting policy, some ns") \
  X(part, 32, none, \
    "looks at one lane from one whole round to the next: a round may ask the kernel, which takes as long as 32") \
  X(short_call, 1024, none, \
    "calls that look for messages with an engine alone, from one round of the whole rank to the next: some 100 us, " \
    "and less than 1 % of their time if a round asks the kernel") \
  X(yielding_call, 16, none, \
    "yields of a call that looks for its message with an engine alone. What comes then closes the gate and may " \
    "sleep, which costs dozens of yields (2 ranks with 2 threads each on 2 cores, M messages a second: 4.1 with 4, " \
    "5.3 with 16, as many with 64; one thread each 6.2)") \
  X(window_call, 32, none, \
    "calls of a window that wait for nothing, from one look at everything else to the next: a look costs about as " \
    "much as a put into shared memory; so many calls take about a microsecond")
// clang-format on

enum class Look : uint8_t {
#define TERN_LOOK(name, ...) name,
  TERN_LOOKS(TERN_LOOK)
#undef TERN_LOOK
};

struct LookLimits {
  uint32_t looks;
  Pause pause;
};

constexpr LookLimits limits_of(Look look) {
  constexpr LookLimits kLimits[] = {
#define TERN_LOOK(name, looks, pause, ...) {looks, Pause::pause},
      TERN_LOOKS(TERN_LOOK)
#undef TERN_LOOK
  };
  return kLimits[int(look)];
}

/// Whether `found` has come true within the looks of this kind.
template <Look kind, typename Found>
bool look_at(Found&& found) {
  constexpr LookLimits limits = limits_of(kind);
  for (uint32_t i = 0; i < limits.looks; ++i) {
    if (found()) return true;
    if constexpr (limits.pause == Pause::brief) short_pause();
    if constexpr (limits.pause == Pause::processor) cpu_pause();
  }
  return false;
}

}  // namespace tern
