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

struct CountingPort final : WaitPort {
  void sleep(uint64_t, uint64_t) override {}
  void wake() override { ++wakes; }
  int wakes = 0;
};

struct Rank {
  RealClock clock;
  Driving driving;
  CountingPort port;
  ProgressEngine engine{clock, driving, port};
};

TEST(ProgressEngine, OneWhoAlwaysFindsKeepsTheOthersServed) {
  Rank rank;
  ProgressEngine& engine = rank.engine;
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
  EXPECT_EQ(other.polls, 1000 / int(limits_of(Look::part).looks));
}

TEST(ProgressEngine, APartOfARoundCallsThoseWhoWaitForWhatItDid) {
  Rank rank;
  ProgressEngine& engine = rank.engine;
  int asked = 0;
  auto ask = [&] { return ++asked < 0; };
  const Condition condition(ask);
  Driving::Follower follower(condition);
  rank.driving.sleep.followers.push_back(&follower);
  rank.driving.sleep.sleepers = 1;
  engine.poll_part([] { return 0; });
  EXPECT_EQ(asked, 0);
  engine.poll_part([] { return 1; });
  EXPECT_EQ(asked, 1);
  engine.poll_part([&] {
    engine.notify();
    return 0;
  });
  EXPECT_EQ(asked, 2);
  // From inside of another round that one does it.
  engine.poll_part([&] { return engine.poll_part([] { return 1; }); });
  EXPECT_EQ(asked, 3);
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
  Rank rank;
  ProgressEngine& engine = rank.engine;
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
  Rank rank;
  ProgressEngine& engine = rank.engine;
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
  Rank rank;
  ProgressEngine& engine = rank.engine;
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
  Rank rank;
  ArmedPath first, second;
  struct Adding final : WaitPort {
    void sleep(uint64_t, uint64_t) override {
      EXPECT_EQ(driving->driver(), Driver::sleeper);
      EXPECT_EQ(driving->armed_for, Driving::Armed::sleeper);
      EXPECT_EQ(first->armed, 1);
      EXPECT_EQ(second->armed, naps);
      if (naps++ == 0) added->add(*second);
    }
    void wake() override { ++wakes; }
    void forget_wake() override { ++forgotten; }
    ArmedPath *first, *second;
    ProgressEngine* added;
    Driving* driving;
    int naps = 0, wakes = 0, forgotten = 0;
  } port;
  WaitPolicy::Setup at_once;
  at_once.oversubscribed = true;
  ProgressEngine sleeps(rank.clock, rank.driving, port, at_once);
  port.first = &first, port.second = &second, port.added = &sleeps, port.driving = &rank.driving;
  sleeps.add(first);
  sleeps.wait_until([&] { return port.naps == 2; });
  EXPECT_EQ(port.wakes, 1);
  EXPECT_EQ(port.forgotten, 1);
  EXPECT_EQ(first.armed + second.armed, 0);
  EXPECT_EQ(rank.driving.armed_for, Driving::Armed::nobody);
}

// The states of docs/architecture.md.
TEST(Driving, SaysWhoDrives) {
  Driving driving;
  EXPECT_EQ(driving.driver(), Driver::nobody);
  driving.enter();
  EXPECT_EQ(driving.driver(), Driver::application);
  driving.enter();
  driving.leave();
  EXPECT_EQ(driving.driver(), Driver::application);
  EXPECT_FALSE(driving.enter_as_helper([] {})) << "the application is inside";
  driving.leave();
  EXPECT_EQ(driving.driver(), Driver::nobody);
  ASSERT_TRUE(driving.enter_as_helper([] {}));
  EXPECT_EQ(driving.driver(), Driver::helper);
  driving.leave_as_helper();
  EXPECT_EQ(driving.driver(), Driver::nobody);
  driving.enable();
  driving.enter();
  EXPECT_EQ(driving.driver(), Driver::application);
  const uint32_t depth = driving.give_way();
  EXPECT_EQ(driving.driver(), Driver::nobody);
  driving.come_back(depth);
  driving.polling = true;
  EXPECT_EQ(driving.give_way(), 0u) << "in the middle of a round";
  EXPECT_EQ(driving.driver(), Driver::application);
  driving.polling = false;
  driving.leave();
}

}  // namespace

}  // namespace tern::test
