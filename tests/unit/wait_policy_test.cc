// The policy of a thread that waits (progress/wait_policy.h), as a table: what it answers to each event; and, with all
// values of its limits, that every wait comes to rest and nobody asks for ever.
#include "progress/wait_policy.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "base/rng.h"

namespace tern::test {
namespace {

using Step = WaitPolicy::Step;

constexpr WaitingLimits kLimits;
constexpr uint64_t kMs = 1'000'000;

WaitPolicy::Setup own_core() {
  WaitPolicy::Setup setup;
  setup.spin_ns = 10 * kMs;
  return setup;
}

WaitPolicy::Setup shared_cores() {
  WaitPolicy::Setup setup;
  setup.oversubscribed = true;
  setup.ranks = 4;
  setup.yields = 200;
  return setup;
}

/// One thread of one rank, on a clock of its own: carries out what the policy says.
struct Waiter {
  explicit Waiter(const WaitPolicy::Setup& setup) : policy(setup) {}

  /// An empty poll; `gap_ns` passes before the policy's next look at the clock. The step that ends it.
  Step empty(uint64_t gap_ns = 0) {
    ++wait.empty;
    Step step = policy.on_empty(wait, threads);
    now_ns += gap_ns;
    if (step == Step::read_clock) step = look();
    if (step == Step::timed_yield && policy.on_yielded(yield_ns)) policy.on_tasks(runnable, turning, asleep);
    if (step == Step::timed_yield) step = Step::yield;
    if (step == Step::sleep) wait.looked_ns = 0;
    return step;
  }
  Step look() {
    const Step step = policy.on_clock(wait, now_ns, threads);
    return step == Step::count_preemptions ? policy.on_preemptions(wait, preemptions, threads) : step;
  }
  /// How long it polls, in steps of `step_ns`, before it sleeps; the message is thought to come then.
  uint64_t polls_ns(uint64_t step_ns = 2000) {
    const uint64_t began_ns = now_ns;
    while (empty(step_ns) != Step::sleep) {
    }
    const uint64_t polled_ns = now_ns - began_ns;
    arrives();
    return polled_ns;
  }
  /// Polls until somebody else gets the core for a time slice.
  void loses_the_core() {
    for (uint64_t polled_ns = 0; polled_ns < kMs; polled_ns += 2000) ASSERT_EQ(empty(2000), Step::pause);
    ++preemptions;
    EXPECT_EQ(empty(3 * kMs), Step::sleep);
    arrives();
  }
  void arrives() {
    if (wait.is_long()) look();
    wait = Wait();
    policy.on_wait_over();
  }
  /// So many steps of a wait of so many empty polls, which then is over.
  uint64_t steps(Step step, uint32_t polls) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < polls; ++i) count += empty() == step;
    arrives();
    return count;
  }

  WaitPolicy policy;
  Wait wait;
  bool threads = false;
  uint64_t now_ns = 1'000'000'000, yield_ns = 1000;
  int64_t preemptions = 7;
  int runnable = 4, turning = 1, asleep = 0;
};

TEST(WaitPolicy, AWaitForTheLauncherSleepsAtOnce) {
  for (const bool shared : {false, true}) {
    Waiter waiter(shared ? shared_cores() : own_core());
    waiter.wait.ended_by = EndedBy::launcher;
    EXPECT_EQ(waiter.empty(), Step::sleep) << (shared ? "shared" : "own");
    EXPECT_EQ(waiter.empty(), Step::sleep);
  }
}

TEST(WaitPolicy, WithACoreOfItsOwnItPollsUntilASleepIsCheap) {
  Waiter rank(own_core());
  EXPECT_EQ(rank.policy.pauses(), kLimits.polls_per_look - 1);
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(double(rank.polls_ns()), 10e6, 1e4);
}

// Ranks that share cores yield by themselves, and spin only where that has paid.
TEST(WaitPolicy, OnlyARankWithCoresOfItsOwnIsCrowded) {
  WaitPolicy::Setup setup = own_core();
  setup.cores = 2;
  EXPECT_FALSE(WaitPolicy(setup).crowded(1));
  EXPECT_TRUE(WaitPolicy(setup).crowded(2));
  setup.oversubscribed = true;
  EXPECT_FALSE(WaitPolicy(setup).crowded(2));
}

// Two ranks that both sleep answer after the time of a wake-up, so both would sleep in each wait.
TEST(WaitPolicy, AfterASleepThatEndsAtOnceItTriesToPollLonger) {
  Waiter rank(own_core());
  rank.threads = true;
  const auto polls_ns = [&] { return double(rank.polls_ns(50)); };
  EXPECT_NEAR(polls_ns(), double(kLimits.wake_ns), 7000);
  rank.policy.on_slept(kMs);
  EXPECT_NEAR(polls_ns(), double(kLimits.wake_ns), 7000) << "nothing is to be won";
  rank.policy.on_slept(kLimits.wake_ns + 10'000);
  for (uint64_t i = 0; i < kLimits.patience_pays; ++i)
    EXPECT_NEAR(polls_ns(), double(kLimits.max_patience_ns), 7000) << "while it does not sleep";
  rank.policy.on_slept(kLimits.wake_ns + 10'000);
  EXPECT_NEAR(polls_ns(), double(kLimits.wake_ns), 7000);
  rank.policy.on_slept(kLimits.wake_ns + 10'000);
  EXPECT_NEAR(polls_ns(), double(kLimits.max_patience_ns), 7000) << "the trial has paid, so the next one comes soon";
}

// The partner needs this core: the answer comes just after the rank has gone to sleep, however long it polled before.
TEST(WaitPolicy, TrialsThatFailGrowRare) {
  Waiter rank(own_core());
  rank.threads = true;
  uint64_t trials = 0;
  for (int i = 0; i < 1000; ++i) {
    trials += rank.polls_ns(50) > 2 * kLimits.wake_ns;
    rank.policy.on_slept(kLimits.wake_ns + 10'000);
  }
  EXPECT_GE(trials, 1000 / kLimits.max_short_sleeps);
  EXPECT_LE(trials, 8 + 1000 / kLimits.max_short_sleeps);
}

TEST(WaitPolicy, WhoIsToSleepAtOnceDoes) {
  WaitPolicy::Setup setup = own_core();
  setup.spin_ns = 0;
  Waiter rank(setup);
  EXPECT_EQ(rank.policy.pauses(), 0u);
  EXPECT_EQ(rank.empty(), Step::sleep);
}

// A sleep that was ended by something else than the message goes on; the time asleep is no gap.
TEST(WaitPolicy, WhoHasSleptGoesOnSleeping) {
  Waiter rank(own_core());
  while (rank.empty(2000) != Step::sleep) {
  }
  rank.now_ns += 500 * kMs;
  ++rank.preemptions;
  EXPECT_EQ(rank.empty(2000), Step::sleep);
  rank.arrives();
  EXPECT_NEAR(double(rank.polls_ns()), 10e6, 1e4);
}

TEST(WaitPolicy, GapsWithoutAPreemptionAreNobodys) {
  Waiter rank(own_core());
  for (int i = 0; i < 30; ++i) EXPECT_GE(rank.polls_ns(3 * kMs), 10 * kMs);
}

TEST(WaitPolicy, ShortPreemptionsAreLeftAlone) {
  Waiter rank(own_core());
  uint64_t polled_ns = 0;
  while (rank.empty(100'000) != Step::sleep) {
    polled_ns += 100'000;
    ++rank.preemptions;
  }
  EXPECT_GT(polled_ns, 9 * kMs);
}

// What it waited for came while somebody else had the core.
TEST(WaitPolicy, TheLastGapOfAWaitCounts) {
  Waiter rank(own_core());
  for (uint64_t polled_ns = 0; polled_ns < kMs; polled_ns += 2000) ASSERT_EQ(rank.empty(2000), Step::pause);
  rank.now_ns += 3 * kMs;
  ++rank.preemptions;
  rank.arrives();
  EXPECT_NEAR(double(rank.polls_ns()), double(kLimits.wake_ns), 4e3);
}

// It is tried again, less and less often while that fails.
TEST(WaitPolicy, WhoseCoreIsWantedPollsForAsLongAsAWakeUpTakes) {
  Waiter rank(own_core());
  uint64_t expected_ns = kLimits.first_wanted_ns;
  for (int trial = 0; trial < 12; ++trial) {
    rank.loses_the_core();
    const uint64_t since_ns = rank.now_ns;
    while (rank.now_ns - since_ns < expected_ns - kMs) {
      ASSERT_NEAR(double(rank.polls_ns()), double(kLimits.wake_ns), 4e3);
      rank.now_ns += kMs / 2;
    }
    rank.now_ns = since_ns + expected_ns + 1;
    expected_ns = std::min(2 * expected_ns, kLimits.max_wanted_ns);
  }
  // Nobody wants it any more.
  EXPECT_NEAR(double(rank.polls_ns()), 10e6, 1e4);
  rank.now_ns += 10'000 * kMs;
  rank.loses_the_core();
  rank.now_ns += kLimits.first_wanted_ns;
  EXPECT_NEAR(double(rank.polls_ns()), 10e6, 1e4);
}

TEST(WaitPolicy, AmongThreadsOfARankNobodyPollsForLong) {
  Waiter rank(own_core());
  rank.threads = true;
  uint32_t looks = 0;
  for (uint32_t i = 1; i <= 10 * kLimits.polls_per_look; ++i) {
    const uint64_t before_ns = rank.wait.looked_ns;
    ASSERT_EQ(rank.empty(1), Step::pause);
    looks += rank.wait.looked_ns != before_ns;
  }
  EXPECT_EQ(looks, 10u);
  rank.arrives();
  EXPECT_NEAR(double(rank.polls_ns(20)), double(kLimits.wake_ns), double(kLimits.polls_per_look) * 40);
}

TEST(WaitPolicy, WhoSharesCoresYieldsThenSleeps) {
  Waiter rank(shared_cores());
  EXPECT_EQ(rank.policy.pauses(), 0u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(rank.empty(), Step::yield);
  EXPECT_EQ(rank.empty(), Step::sleep);
  EXPECT_EQ(rank.empty(), Step::sleep);
  rank.arrives();
  EXPECT_EQ(rank.empty(), Step::yield);
}

/// One of four ranks that share cores; each of its yields costs a slice of another task.
struct YieldsForLong : Waiter {
  YieldsForLong() : Waiter(setup()) {
    yield_ns = 3 * kMs;
    turning = 0;
  }
  static WaitPolicy::Setup setup() {
    WaitPolicy::Setup setup = shared_cores();
    setup.limits.spin_polls = 0;
    return setup;
  }
};

TEST(WaitPolicy, BesideStrangersWhoSharesCoresSleepsAtOnce) {
  YieldsForLong rank;
  rank.runnable = 5;
  const auto sleeps = [&] {
    uint64_t count = 0;
    while (rank.steps(Step::sleep, 1) != 0) ++count;
    return count;
  };
  for (uint64_t i = 1; i < kLimits.sightings; ++i) EXPECT_EQ(rank.empty(), Step::yield);
  rank.runnable = 4;  // only the job's own ranks: it starts again
  for (uint64_t i = 0; i < 3 * kLimits.sightings; ++i) EXPECT_EQ(rank.empty(), Step::yield);
  rank.arrives();
  rank.runnable = 5;
  for (uint64_t i = 0; i < kLimits.sightings; ++i) EXPECT_EQ(rank.steps(Step::yield, 1), 1u);
  // The wait that ends a row of sleeps yields, and finds them still there.
  for (uint64_t expected = kLimits.first_sleeps; expected <= 4 * kLimits.max_sleeps; expected *= 2) {
    EXPECT_EQ(sleeps(), std::min(expected, kLimits.max_sleeps));
  }
  rank.runnable = 4;
  EXPECT_EQ(sleeps(), kLimits.max_sleeps);
  EXPECT_EQ(sleeps(), 0u);
}

// Two tasks are no more than two awake ranks; when three of the four ranks sleep, one of the two is a stranger.
TEST(WaitPolicy, StrangersAreFoundAlsoWhileOtherRanksSleep) {
  YieldsForLong rank;
  rank.runnable = 2;
  rank.asleep = 2;  // this rank, and one that computes
  for (uint64_t i = 0; i < 3 * kLimits.sightings; ++i) EXPECT_EQ(rank.empty(), Step::yield);
  rank.arrives();
  rank.asleep = 3;
  for (uint64_t i = 0; i < kLimits.sightings; ++i) EXPECT_EQ(rank.empty(), Step::yield);
  EXPECT_EQ(rank.empty(), Step::sleep);
}

TEST(WaitPolicy, OfManyQuickYieldsFewAreTimed) {
  WaitPolicy policy(shared_cores());
  uint64_t timed = 0;
  for (uint64_t i = 0; i < kLimits.soon_yields + 8000; ++i) {
    Wait wait;
    wait.empty = 1;
    timed += policy.on_empty(wait, false) == Step::timed_yield;
  }
  EXPECT_NEAR(double(timed), double(kLimits.soon_yields + 8000 / kLimits.timed_yields), 2);
}

TEST(WaitPolicy, ALoopOfTestsGivesItsTurnOnlyWhereCoresOrTheLockAreShared) {
  for (const bool threads : {false, true}) {
    WaitPolicy own(own_core()), shared(shared_cores());
    EXPECT_EQ(own.on_empty_look(threads) != Step::pause, threads);
    EXPECT_NE(shared.on_empty_look(threads), Step::pause);
  }
}

TEST(AdaptiveSpin, EndsWhenItMostlyFails) {
  AdaptiveSpin spin(1000, kLimits);
  const auto wait = [&](bool empty) {
    if (empty && spin.polls() != 0) spin.was_empty();
    spin.wait_ended();
  };
  const auto try_it = [&] {
    for (uint64_t i = 0; i < kLimits.spin_trial_interval && spin.polls() == 0; ++i) wait(true);
    EXPECT_EQ(spin.polls(), kLimits.spin_polls);
  };
  try_it();
  for (uint64_t i = 0; i < kLimits.spin_first_trust / kLimits.spin_failure; ++i) wait(true);
  EXPECT_EQ(spin.polls(), 0u);
  try_it();
  for (int i = 0; i < 10'000; ++i) wait(i % 6 == 0);  // five of six succeed
  EXPECT_EQ(spin.polls(), kLimits.spin_polls);
  uint64_t failures = 0;
  while (spin.polls() != 0) {
    wait(true);
    ++failures;
  }
  EXPECT_LE(failures, kLimits.spin_max_trust / kLimits.spin_failure);
  try_it();
  for (int i = 0; i < 100; ++i) wait(i % 3 == 0);  // two of three succeed
  uint32_t spun = 0;
  for (int i = 0; i < 10'000; ++i) {
    spun += spin.polls() != 0;
    wait(i % 3 == 0);
  }
  EXPECT_LT(spun, 2000u);
}

TEST(AdaptiveSpin, TakesNoMorePollsThanAWaitMay) {
  for (const uint64_t most : {0u, 1u, 10u}) {
    AdaptiveSpin spin(most, kLimits);
    for (uint64_t i = 0; i < 3 * kLimits.spin_trial_interval; ++i) spin.wait_ended();
    EXPECT_EQ(spin.polls(), most);
  }
}

/// Every limit with every value of its row, the others at their defaults.
std::vector<std::pair<const char*, WaitingLimits>> all_limits() {
  std::vector<std::pair<const char*, WaitingLimits>> all{{"the defaults", WaitingLimits()}};
#define TERN_LIST(...) {__VA_ARGS__}
#define TERN_ROW(name, initial, unit, values, source)                   \
  for (const uint64_t value : std::vector<uint64_t> TERN_LIST values) { \
    all.emplace_back(#name, WaitingLimits());                           \
    all.back().second.name = value;                                     \
  }
  TERN_WAITING_LIMITS(TERN_ROW)
#undef TERN_ROW
#undef TERN_LIST
  return all;
}

// Whatever happens, in whatever order: a wait for something that does not come ends in sleep within bounded polls and
// time, and a step is always one that ends the empty poll.
TEST(WaitPolicy, EveryWaitComesToRest) {
  for (const auto& [name, limits] : all_limits()) {
    for (const bool oversubscribed : {false, true}) {
      for (const bool threads : {false, true}) {
        WaitPolicy::Setup setup = oversubscribed ? shared_cores() : own_core();
        setup.limits = limits;
        Waiter rank(setup);
        rank.threads = threads;
        Rng rng(1);
        for (int i = 0; i < 300; ++i) {
          rank.yield_ns = rng.below(4 * kMs);
          rank.runnable = int(rng.below(8));
          rank.turning = int(rng.below(2));
          const uint64_t began_ns = rank.now_ns;
          const bool arrives = rng.below(2) == 0;
          uint64_t polls = 0;
          for (Step step = Step::pause; step != Step::sleep; ++polls) {
            ASSERT_LE(polls, 10 * kMs / 1000 * limits.polls_per_look) << name;
            const uint64_t step_ns = 1000 + (rng.below(50) == 0 ? rng.below(5 * kMs) : 0);
            rank.preemptions += int64_t(rng.below(2));
            step = rank.empty(step_ns);
            ASSERT_TRUE(step == Step::pause || step == Step::yield || step == Step::sleep) << name;
            ASSERT_FALSE(!oversubscribed && step == Step::yield) << name;
            if (arrives && rng.below(20) == 0) break;
          }
          if (!oversubscribed && !threads) {
            ASSERT_LE(rank.now_ns - began_ns, 10 * kMs + 6 * kMs + limits.wake_ns) << name;
          }
          rank.arrives();
        }
      }
    }
  }
}

}  // namespace
}  // namespace tern::test
