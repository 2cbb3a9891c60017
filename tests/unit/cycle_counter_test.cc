// CycleCounter: its rate is measured beside an exact clock; interrupted readings do not count.
#include "base/cycle_counter.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/clock.h"

namespace tern {
namespace {

TEST(CycleCounter, AnInterruptedReadingIsNotUsed) {
  CycleCounter counter;
  const uint64_t gap = CycleCounter::kMaxGap + 1;
  counter.note(1'000, 5, 1'000 + gap);
  counter.note(1'000'000'000, 5 + CycleCounter::kMeasured_ns, 1'000'000'000 + gap);
  EXPECT_FALSE(counter.known());
}

TEST(CycleCounter, TheRateNeedsTwoReadingsFarApart) {
  CycleCounter counter;
  counter.note(1'000, 5, 1'001);
  counter.note(2'000, 5 + CycleCounter::kMeasured_ns - 1, 2'001);
  EXPECT_FALSE(counter.known());
}

// Both clocks are read across the same time; an interrupted pair is repeated.
TEST(CycleCounter, RoughDifferencesAreWithinOnePercent) {
  RealClock clock;
  double error = 1;
  for (int trial = 0; trial < 20 && error > 0.01; ++trial) {
    const uint64_t from = clock.now_ns(), rough_from = clock.rough_ns();
    while (clock.now_ns() - from < 20 * kMillisecond_ns) clock.rough_ns();
    const uint64_t passed = clock.now_ns() - from, rough = clock.rough_ns() - rough_from;
    error = std::abs(double(rough) - double(passed)) / double(passed);
  }
  EXPECT_LE(error, 0.01);
}

}  // namespace
}  // namespace tern
