// How often a sleeping sender looks whether its messages have arrived (fabric/tcp/drain_estimate.h).
#include "fabric/tcp/drain_estimate.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

/// Looks until all is acknowledged by a network of so many bytes per microsecond; how often, and how late.
struct Waiting {
  int looks = 0;
  uint64_t late_ns = 0;

  Waiting(DrainEstimate& estimate, uint64_t begin_ns, uint64_t bytes, uint64_t bytes_per_us) {
    const uint64_t done_ns = bytes * 1000 / bytes_per_us;
    for (uint64_t passed = 0;; ++looks) {
      const uint64_t acknowledged = std::min(bytes, passed * bytes_per_us / 1000);
      if (acknowledged == bytes) {
        late_ns = passed - done_ns;
        break;
      }
      passed += estimate.next_look_ns(begin_ns + passed, acknowledged, bytes - acknowledged);
    }
    estimate.forget();
  }
};

TEST(TcpDrainEstimate, FewLooksAndNoneLate) {
  DrainEstimate estimate;
  const Waiting one_mebibyte(estimate, 1'000'000'000, 1 << 20, 125);  // 8.4 ms
  EXPECT_LE(one_mebibyte.looks, 3);
  EXPECT_LE(one_mebibyte.late_ns, 500'000u);
  const Waiting four(estimate, 2'000'000'000, 4 << 20, 125);  // 33.6 ms
  EXPECT_LE(four.looks, 6);
  EXPECT_LE(four.late_ns, 500'000u);
  const Waiting fast(estimate, 3'000'000'000, 1 << 20, 10'000);  // 0.1 ms: over before the first look
  EXPECT_EQ(fast.looks, 1);
}

TEST(TcpDrainEstimate, WhatStandsStillIsLookedAtEveryTwoMilliseconds) {
  DrainEstimate estimate;
  uint64_t now_ns = 1'000'000'000;
  for (int i = 0; i < 5; ++i) {
    const uint64_t nap_ns = estimate.next_look_ns(now_ns, 1000, 1 << 20);
    EXPECT_EQ(nap_ns, 2'000'000u);
    now_ns += nap_ns;
  }
  // It moves again, then stops: what was known of it counts no more.
  EXPECT_LT(estimate.next_look_ns(now_ns, 2'001'000, 1 << 20), 2'000'000u);
  EXPECT_EQ(estimate.next_look_ns(now_ns + 1'000'000, 2'001'000, 1 << 20), 2'000'000u);
}

TEST(TcpDrainEstimate, LooksInQuickSuccessionDoNotSpoilIt) {
  DrainEstimate estimate;
  (void)estimate.next_look_ns(1'000'000'000, 0, 4 << 20);
  const uint64_t first = estimate.next_look_ns(1'002'000'000, 250'000, 1'000'000);
  EXPECT_EQ(first, 8'000'000u);
  EXPECT_EQ(estimate.next_look_ns(1'002'010'000, 250'000, 1'000'000), first)
      << "10 us later nothing more has been acknowledged";
}

TEST(TcpDrainEstimate, WhatWentBeforeDoesNotCount) {
  DrainEstimate estimate;
  (void)Waiting(estimate, 1'000'000'000, 1 << 20, 1);
  EXPECT_EQ(estimate.next_look_ns(9'000'000'000, 1 << 20, 1 << 20), 2'000'000u);
}

}  // namespace
}  // namespace tern
