// A round of the engine, and less than one.
#include "progress/engine.h"

#include <gtest/gtest.h>

namespace tern::test {

namespace {

struct CountingPath final : Pollable {
  int polls = 0;
  int poll() override {
    ++polls;
    return 0;
  }
};

struct CountingIdle final : Idle {
  int calls = 0;
  void relax(ProgressEngine&, Wait&, const Condition&) override {}
  void call_ready(ProgressEngine&) override { ++calls; }
};

TEST(ProgressEngine, OneWhoAlwaysFindsKeepsTheOthersServed) {
  RealClock clock;
  CountingIdle idle;
  ProgressEngine engine(clock, idle);
  CountingPath other;
  engine.add(other);
  int looks = 0;
  for (int i = 0; i < 1000; ++i) {
    engine.poll_part([&] {
      EXPECT_TRUE(engine.polling());
      return ++looks;
    });
    EXPECT_FALSE(engine.polling());
  }
  EXPECT_EQ(looks + other.polls, 1000);
  EXPECT_EQ(other.polls, 1000 / 32);
}

TEST(ProgressEngine, APartOfARoundWakesThoseWhoWaitForWhatItDid) {
  RealClock clock;
  CountingIdle idle;
  ProgressEngine engine(clock, idle);
  idle.sleepers = 1;
  engine.poll_part([] { return 0; });
  EXPECT_EQ(idle.calls, 0);
  engine.poll_part([] { return 1; });
  EXPECT_EQ(idle.calls, 1);
  engine.poll_part([&] {
    engine.notify();
    return 0;
  });
  EXPECT_EQ(idle.calls, 2);
  // From inside of another round that one does it.
  engine.poll_part([&] { return engine.poll_part([] { return 1; }); });
  EXPECT_EQ(idle.calls, 3);
}

}  // namespace

}  // namespace tern::test
