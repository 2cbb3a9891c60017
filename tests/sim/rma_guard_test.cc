// AccumulateGuard: one at a time, also between threads; a member that ended with the guard leaves nobody waiting.
#include <gtest/gtest.h>

#include <thread>

#include "rma/shared_part.h"
#include "tests/sim/plain_segments.h"

namespace tern::rma {
namespace {

struct Guarded {
  Guarded() {
    part.plan({0, 1, 2}, {10, 11, 12}, {8, 8, 8}, false, 64, 0, false);
    EXPECT_FALSE(part.allocate(segments, nullptr));
  }
  PlainSegments segments;
  SharedPart part;
};

TEST(RmaGuard, OneAtATime) {
  Guarded all;
  int inside = 0;
  long sum = 0;
  const auto work = [&](int me) {
    for (int i = 0; i < 20'000; ++i) {
      const AccumulateGuard alone(all.part, 1, me);
      ++inside;
      EXPECT_EQ(inside, 1);
      ++sum;
      --inside;
    }
  };
  std::thread other(work, 2);
  work(0);
  other.join();
  EXPECT_EQ(sum, 40'000);
  EXPECT_EQ(all.part.control(1).accumulating.load(), 0u);
}

TEST(RmaGuard, ADeathLeavesNobodyWaiting) {
  Guarded all;
  all.segments.ended.insert(12);
  all.part.control(1).accumulating = 3;  // the member of place 2 had it
  {
    const AccumulateGuard alone(all.part, 1, 0);
    EXPECT_EQ(all.part.control(1).accumulating.load(), 1u);
  }
  EXPECT_EQ(all.part.control(1).accumulating.load(), 0u);
}

}  // namespace
}  // namespace tern::rma
