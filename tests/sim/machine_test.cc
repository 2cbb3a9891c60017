// The simulator itself: order of events, clocks, fences, deadlock reports, determinism, failures, many ranks.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "sim/machine.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

TEST(Scheduler, EventsHappenInOrderOfTimeThenOfScheduling) {
  struct Recorder final : EventTarget {
    void on_event(EventKind, uint64_t datum) override { seen.push_back(datum); }
    std::vector<uint64_t> seen;
  } recorder;
  Scheduler scheduler({}, false);
  scheduler.at(20, recorder, EventKind::note, 0, 1);
  scheduler.at(10, recorder, EventKind::note, 0, 2);
  scheduler.at(20, recorder, EventKind::note, 0, 3);
  scheduler.at(10, recorder, EventKind::note, 0, 4);
  scheduler.run();
  EXPECT_EQ(recorder.seen, (std::vector<uint64_t>{2, 4, 1, 3}));
  EXPECT_EQ(scheduler.now_ns(), 20u);
}

TEST(Machine, StrandsInterleaveByVirtualTime) {
  WorldOptions options;
  options.ranks = 3;
  std::vector<uint32_t> order;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    for (int i = 0; i < 3; ++i) {
      rank.strand.charge_ns(100 * (rank.index() + 1));
      rank.strand.catch_up();
      order.push_back(rank.index());
    }
  });
  ASSERT_TRUE(report.ok()) << report.failure;
  // Rank r acts at multiples of 100 (r + 1); at equal times whoever asked first (rank 1 asked for 200 before rank 0
  // did).
  EXPECT_EQ(order, (std::vector<uint32_t>{0, 1, 0, 2, 0, 1, 2, 1, 2}));
  EXPECT_EQ(report.virtual_ns, 900u);
  EXPECT_EQ(report.ranks[1].at_ns, 600u);
}

TEST(Machine, WakingEarlyAndLate) {
  WorldOptions options;
  uint64_t woken_at = 0, timed_out_at = 0;
  Strand* sleeper = nullptr;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Strand& strand = rank.strand;
    if (rank.index() == 0) {
      sleeper = &strand;
      strand.block(kNever_ns, "asleep");
      woken_at = strand.now_ns();
      strand.block(strand.now_ns() + 50, "asleep");
      timed_out_at = strand.now_ns();
      return;
    }
    strand.charge_ns(1000);
    strand.catch_up();
    sleeper->wake(strand.now_ns() + 7);
    sleeper->wake(strand.now_ns() + 5);  // the earlier counts
    sleeper->wake(strand.now_ns() + 9);
  });
  ASSERT_TRUE(report.ok()) << report.failure;
  EXPECT_EQ(woken_at, 1005u);
  EXPECT_EQ(timed_out_at, 1055u);
}

TEST(Machine, FenceMakesPutsVisibleAndHoldsEverybody) {
  WorldOptions options;
  options.ranks = 5;
  options.ranks_per_node = 2;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    auto launcher = rank.make_launcher();
    std::string value;
    rank.strand.charge_ns(rank.index() * 1000);
    ASSERT_FALSE(launcher->put("k", "of " + std::to_string(launcher->rank())));
    EXPECT_TRUE(launcher->get(launcher->rank(), "k", value));  // an error: no fence yet
    ASSERT_FALSE(launcher->fence());
    EXPECT_GE(rank.strand.now_ns(), 4000 + options.network.fence_ns);
    ASSERT_FALSE(launcher->get(4, "k", value));
    EXPECT_EQ(value, "of 4");
    EXPECT_TRUE(launcher->put("k", "again"));
    EXPECT_EQ(launcher->local_ranks(), rank.index() == 4
                                           ? std::vector<int>{4}
                                           : std::vector<int>({int(rank.index() & ~1u), int(rank.index() | 1u)}));
    Error error;
    ASSERT_FALSE(launcher->enter_barrier());
    while (!launcher->barrier_is_over(error)) rank.strand.block(kNever_ns, "in the barrier");
    EXPECT_FALSE(error);
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(Machine, DeadlockIsExplained) {
  WorldOptions options;
  options.ranks = 3;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    if (rank.index() == 1) rank.strand.block(kNever_ns, "waiting for Godot");
    if (rank.index() == 2) (void)rank.make_launcher()->fence();
  });
  EXPECT_TRUE(report.deadlock);
  EXPECT_FALSE(report.ok());
  EXPECT_NE(report.failure.find("rank 1: waiting for Godot"), std::string::npos) << report.failure;
  EXPECT_NE(report.failure.find("rank 2: in the launcher's fence"), std::string::npos) << report.failure;
  EXPECT_NE(report.failure.find("TERN_SIM_SEED=1"), std::string::npos) << report.failure;
  EXPECT_TRUE(report.ranks[0].finished);
  EXPECT_FALSE(report.ranks[1].finished);
}

TEST(Machine, LivelockIsEnded) {
  WorldOptions options;
  options.limits.virtual_ns = 1'000'000;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    auto clock = rank.make_clock();
    while (rank.index() == 0) {
      clock->charge_ns(100);
      rank.strand.catch_up();
    }
  });
  EXPECT_FALSE(report.ok());
  EXPECT_NE(report.failure.find("does not end"), std::string::npos) << report.failure;
}

TEST(Machine, ExceptionsAreReportedWithRankAndSeed) {
  WorldOptions options;
  options.ranks = 4;
  options.seed = 99;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    // Exceptions in flight on two fibers at once: their states must not mix.
    try {
      throw std::runtime_error("inner");
    } catch (const std::exception&) {
      rank.strand.charge_ns(10 + rank.index());
      rank.strand.catch_up();
      if (rank.index() == 2) throw std::runtime_error("boom");
      rank.strand.charge_ns(1000);
      rank.strand.catch_up();
    }
  });
  EXPECT_NE(report.failure.find("rank 2 threw: boom"), std::string::npos) << report.failure;
  EXPECT_NE(report.failure.find("TERN_SIM_SEED=99"), std::string::npos) << report.failure;
  EXPECT_EQ(report.ranks[2].error, "boom");
}

TEST(Machine, AbortEndsTheRun) {
  Report report = Machine({}).run([&](Machine::Rank& rank) {
    if (rank.index() == 1) rank.make_launcher()->abort(3, "enough");
    rank.strand.block(kNever_ns, "for ever");
  });
  EXPECT_NE(report.failure.find("rank 1 aborted with code 3: enough"), std::string::npos) << report.failure;
}

TEST(MachineDeathTest, AnAssertionNamesRankAndSeed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        WorldOptions options;
        options.seed = 4711;
        Machine(options).run([&](Machine::Rank& rank) {
          rank.strand.charge_ns(5);
          rank.strand.catch_up();
          TERN_ASSERT(rank.index() == 0);
        });
      },
      "on rank 1, at virtual time 5 ns; replay with TERN_SIM_SEED=4711");
}

TEST(Machine, ManyRanks) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr uint32_t kRanks = 1000;  // thread sanitizer has few fibers, address sanitizer much shadow
#else
  constexpr uint32_t kRanks = 65536;
#endif
  WorldOptions options;
  options.ranks = kRanks;
  uint64_t sum = 0;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    ASSERT_FALSE(rank.make_launcher()->fence());
    sum += rank.index();
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  EXPECT_EQ(sum, uint64_t(kRanks) * (kRanks - 1) / 2);
}

TEST(Machine, TwoMachinesOneAfterTheOther) {
  for (int i = 0; i < 2; ++i) {
    Report report = Machine({}).run([&](Machine::Rank& rank) { ASSERT_FALSE(rank.make_launcher()->fence()); });
    EXPECT_TRUE(report.ok()) << report.failure;
  }
}

}  // namespace
}  // namespace tern::sim
