// What the tests of pieces share: the piece as it is must pass, and each place of it that has a memory order is made
// relaxed in turn, which mostly must be noticed.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdio>
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

/// Of the piece's places, how many are needed: made relaxed, an execution fails. Prints those that are not.
inline size_t count_needed(const Outcome& outcome, const Bounds& bounds, const Program& program) {
  size_t needed = 0;
  for (const Place& place : outcome.places) {
    Bounds weaker = bounds;
    weaker.weaken = place.address;
    const bool noticed = !explore(weaker, program).failure.empty();
    needed += noticed;
    if (!noticed)
      std::printf("[  relaxed ] %s at %s: no failure\n", place.what.c_str(), line_of(place.address).c_str());
  }
  std::printf("[ explored ] %zu of %zu places with a memory order are needed here\n", needed, outcome.places.size());
  return needed;
}

/// Whether a descriptor that a rank sleeps on would wake it.
inline bool is_readable(int descriptor) {
  pollfd asked{descriptor, POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1;
}

}  // namespace tern::explore
