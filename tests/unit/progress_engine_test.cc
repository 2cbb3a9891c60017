// A round of the engine, and less than one.
#include "progress/engine.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <new>
#include <utility>

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
  void wake(ProgressEngine&) override { ++wakes; }
  int wakes = 0;
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

/// Work that does `then` at each of its turns.
struct Work final : Advanceable {
  explicit Work(std::function<int()> at_turn) : then(std::move(at_turn)) {}
  int advance() override {
    ++turns;
    return then();
  }
  std::function<int()> then;
  int turns = 0;
};

// A callback of the user's may wait in the middle of a turn: others go on, but nobody has two turns at a time.
TEST(ProgressEngine, WhoPollsInsideOfItsTurnGetsNoSecondOne) {
  RealClock clock;
  CountingIdle idle;
  ProgressEngine engine(clock, idle);
  Work other([] { return 1; });
  int inside = 0;
  Work nested([&] {
    EXPECT_EQ(++inside, 1);
    engine.poll();
    engine.poll();
    --inside;
    return 1;
  });
  engine.activate(nested);
  engine.activate(other);
  engine.poll();
  EXPECT_EQ(nested.turns, 1);
  EXPECT_EQ(other.turns, 3);
  engine.deactivate(nested);
  engine.deactivate(other);
}

// Inside of another's turn, too, work may end and be gone.
TEST(ProgressEngine, TurnsEndAnotherWork) {
  RealClock clock;
  CountingIdle idle;
  ProgressEngine engine(clock, idle);
  auto last = std::make_unique<Work>([] { return 1; });
  Work killer([&] {
    if (!last) return 0;
    engine.deactivate(*last);
    last.reset();
    return 1;
  });
  bool polled = false;
  Work nested([&] {
    if (!std::exchange(polled, true)) engine.poll();
    return 1;
  });
  engine.activate(nested);
  engine.activate(killer);
  engine.activate(*last);
  engine.poll();
  EXPECT_EQ(last, nullptr);
  EXPECT_EQ(killer.turns, 2);
  engine.deactivate(nested);
  engine.deactivate(killer);
  EXPECT_FALSE(engine.has_work());
}

TEST(ProgressEngine, AnExceptionEndsThePoll) {
  RealClock clock;
  CountingIdle idle;
  ProgressEngine engine(clock, idle);
  Work failing([]() -> int { throw std::bad_alloc(); });
  engine.activate(failing);
  EXPECT_THROW(engine.poll(), std::bad_alloc);
  EXPECT_FALSE(engine.polling());
  EXPECT_THROW(engine.poll(), std::bad_alloc);
  EXPECT_EQ(failing.turns, 2) << "its first turn is over";
  engine.deactivate(failing);
}

struct ArmedPath final : Pollable {
  int poll() override { return 0; }
  bool arm() override {
    ++armed;
    return true;
  }
  void disarm() override { EXPECT_EQ(armed--, 1); }
  int armed = 0;
};

// Another thread opens a port, or a path to another job, while one sleeps: that one wakes, and disarms what it armed.
TEST(ProgressEngine, APathIsAddedWhileTheOthersAreArmed) {
  RealClock clock;
  CountingIdle idle;
  ProgressEngine engine(clock, idle);
  ArmedPath first, second;
  engine.add(first);
  EXPECT_TRUE(engine.arm_all());
  EXPECT_EQ(idle.wakes, 0);
  engine.add(second);
  EXPECT_EQ(idle.wakes, 1);
  EXPECT_EQ(second.armed, 0);
  engine.disarm_all();
  EXPECT_EQ(first.armed, 0);
  EXPECT_TRUE(engine.arm_all());
  EXPECT_EQ(second.armed, 1);
  engine.disarm_all();
  EXPECT_EQ(second.armed, 0);
}

}  // namespace

}  // namespace tern::test
