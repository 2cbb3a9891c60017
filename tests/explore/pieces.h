// What the tests of pieces share: the piece as it is must pass, and each place of it that has a memory order is made
// relaxed in turn, which mostly must be noticed.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "tests/explore/explorer.h"

namespace tern::explore {

using Program = std::function<void(Execution&)>;

/// Explores the piece as it is; it must pass, all executions within the bounds.
inline Outcome must_hold(const char* piece, const Bounds& bounds, const Program& program) {
  Bounds traced = bounds;
  traced.trace = true;
  const Outcome outcome = explore(traced, program);
  std::printf("[ explored ] %s: %s\n", piece, outcome.text().c_str());
  EXPECT_EQ(outcome.failure, "") << piece;
  EXPECT_TRUE(outcome.exhausted) << piece;
  EXPECT_EQ(outcome.cut_off, 0u) << piece;
  return outcome;
}

/// Of the piece's places in files of such a name, how many are needed: made relaxed, an execution fails. Prints those
/// that are not; mostly a second one beside it, or a doorbell, gives the same order.
inline size_t count_needed(const Outcome& outcome, const Bounds& bounds, const Program& program, const char* file) {
  size_t needed = 0, places = 0;
  for (const Place& place : outcome.places) {
    const std::string line = line_of(place.address);
    if (line.find(file) != 0) continue;
    ++places;
    Bounds weaker = bounds;
    weaker.executions = std::min<uint64_t>(weaker.executions, 4000);  // what is noticed is noticed early
    weaker.weaken = place.address;
    const bool noticed = !explore(weaker, program).failure.empty();
    needed += noticed;
    if (!noticed) std::printf("[  relaxed ] %s at %s: no failure\n", place.what.c_str(), line.c_str());
  }
  std::printf("[ explored ] %zu of %zu places with a memory order are needed here\n", needed, places);
  return needed;
}

/// Preemptions, or more of them for a long search: TERN_EXPLORE_MORE=1.
inline uint32_t preemptions(uint32_t usual) {
  const char* more = std::getenv("TERN_EXPLORE_MORE");
  return usual + (more ? uint32_t(std::strtoul(more, nullptr, 10)) : 0);
}

/// Whether a descriptor that a rank sleeps on would wake it.
inline bool is_readable(int descriptor) {
  pollfd asked{descriptor, POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1;
}

}  // namespace tern::explore
