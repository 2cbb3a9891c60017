// Whether the event thread looks on before it sleeps (progress/adaptive_linger.h).
#include "progress/adaptive_linger.h"

#include <gtest/gtest.h>

namespace tern::test {
namespace {

constexpr uint64_t kSoon_ns = AdaptiveLinger::kSoon_ns - 1, kLate_ns = AdaptiveLinger::kSoon_ns;

/// One that has seen an exchange of two messages, the second one soon after the first.
AdaptiveLinger after_an_exchange() {
  AdaptiveLinger linger;
  EXPECT_FALSE(linger.looks_after(false));
  linger.on_woken(kSoon_ns);
  EXPECT_FALSE(linger.looks_after(true)) << "after an answer nothing is expected";
  linger.on_woken(kLate_ns);
  return linger;
}

TEST(AdaptiveLinger, ItSleepsAtOnceUntilAnAnsweredMessageComesSoonAfterAnother) {
  AdaptiveLinger linger;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(linger.looks_after(i % 2 != 0));
    linger.on_woken(kLate_ns);
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(linger.looks_after(false)) << "parts of a long message";
    linger.on_woken(kSoon_ns);
  }
  EXPECT_TRUE(after_an_exchange().looks_after(false));
}

TEST(AdaptiveLinger, AfterSoManyEmptyLooksItSleepsAtOnceAgain) {
  AdaptiveLinger linger = after_an_exchange();
  for (int round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < AdaptiveLinger::kTrust; ++i) {
      ASSERT_TRUE(linger.looks_after(false)) << i;
      linger.on_none();
      linger.on_woken(kLate_ns);
    }
    ASSERT_FALSE(linger.looks_after(false));
    linger.on_woken(kSoon_ns);
    linger.looks_after(true);
    ASSERT_TRUE(linger.looks_after(false)) << "one exchange counts as all of them";
    linger.on_found();
    linger.looks_after(true);
  }
}

// Exchanges of three messages, of which the last one is answered: from the second exchange on it sleeps once in each.
TEST(AdaptiveLinger, ItSleepsOnceInAnExchange) {
  AdaptiveLinger linger;
  int looks = 0, wakes = 0;
  bool looks_now = false;
  const auto arrives = [&](uint64_t after_ns, bool answered) {
    looks += looks_now;
    if (looks_now && after_ns < AdaptiveLinger::kLook_ns) {
      linger.on_found();
    } else {
      if (looks_now) linger.on_none();
      ++wakes;
      linger.on_woken(after_ns);
    }
    looks_now = linger.looks_after(answered);
  };
  for (int i = 0; i < 100; ++i) {
    arrives(200'000, false);
    arrives(10'000, false);
    arrives(10'000, true);
  }
  EXPECT_EQ(looks, 2 * 99);
  EXPECT_EQ(wakes, 102);
}

// Whatever happens: for each answered message that came soon at most kTrust looks find nothing.
TEST(AdaptiveLinger, EmptyLooksAreBounded) {
  constexpr int kSteps = 60, kPeriod = 6;
  for (int code = 0; code < 6 * 6 * 6 * 6 * 6 * 6; ++code) {
    AdaptiveLinger linger;
    uint32_t empty = 0, allowed = 0;
    bool soon = false;
    for (int i = 0, left = 0; i < kSteps; ++i, left /= 6) {
      if (i % kPeriod == 0) left = code;
      const bool answered = left % 2 != 0;
      if (answered && soon) allowed += AdaptiveLinger::kTrust;
      const bool looks = linger.looks_after(answered);
      const int next = left / 2 % 3;  // comes while it looks, soon after, late
      soon = next != 2;
      if (looks && next == 0) {
        linger.on_found();
        continue;
      }
      empty += looks;
      if (looks) linger.on_none();
      linger.on_woken(soon ? kSoon_ns : kLate_ns);
      ASSERT_LE(empty, allowed) << code;
    }
  }
}

}  // namespace
}  // namespace tern::test
