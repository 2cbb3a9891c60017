// The lock between one application thread and the event thread (progress/rank_lock.h), and the event thread's
// hand-overs (progress/event_handler.h): never both inside, and nothing that is pending is left to nobody.
#include "progress/driving.h"

#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>

#include "progress/event_handler.h"
#include "tests/explore/pieces.h"

namespace tern::explore {
namespace {

void barrier() { syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0, 0, 0); }

/// Both come and go, and each time write the same plain word: a race, unless the lock keeps them apart.
Program come_and_go(int visits, bool expected) {
  return [=](Execution& execution) {
    struct State {
      Driving lock;
      uint64_t inside = 0;
    };
    auto state = std::make_shared<State>();
    execution.share(state.get(), sizeof(State));
    execution.thread([=] {
      for (int i = 0; i < visits; ++i) {
        state->lock.enter();
        ++state->inside;
        if (expected) state->lock.expect_helper(i % 2 == 0);
        state->lock.leave();
      }
    });
    execution.thread([=] {
      for (int i = 0; i < 2; ++i) {
        if (!state->lock.enter_as_helper(barrier)) continue;
        ++state->inside;
        state->lock.leave_as_helper();
      }
    });
  };
}

TEST(RankLock, NeverBothInside) {
  const Bounds bounds{.preemptions = 3, .old_values = 3};
  const Program program = come_and_go(2, false);
  const Outcome outcome = must_hold("RankLock, helped", bounds, program);
  EXPECT_GT(count_needed(outcome, bounds, program, "rank_lock"), 5u);
}

TEST(RankLock, NeverBothInsideWhereTheThreadIsExpected) {
  const Bounds bounds{.preemptions = 2, .old_values = 2};
  const Program program = come_and_go(3, true);
  const Outcome outcome = must_hold("RankLock, helped and expected", bounds, program);
  EXPECT_GT(count_needed(outcome, bounds, program, "rank_lock"), 5u);
}

/// The thread comes all the time; `expected`: as it must be then.
Program comes_all_the_time(bool expected) {
  return [=](Execution& execution) {
    struct State {
      Driving lock;
      uint64_t inside = 0;
    };
    auto state = std::make_shared<State>();
    if (expected) state->lock.expect_helper(true);
    execution.share(state.get(), sizeof(State));
    execution.thread([=] {
      for (int i = 0; i < 2; ++i) {
        state->lock.enter();
        ++state->inside;
        state->lock.leave();
      }
    });
    execution.thread([=] {
      for (int i = 0; i < 3; ++i) {
        if (!state->lock.try_enter_as_helper()) continue;
        ++state->inside;
        state->lock.leave_as_helper();
      }
    });
  };
}

TEST(RankLock, NeverBothInsideWhereTheThreadComesAllTheTime) {
  const Bounds bounds{.preemptions = 2, .old_values = 2};
  must_hold("RankLock, helped all the time", bounds, comes_all_the_time(true));
  EXPECT_NE(explore(bounds, comes_all_the_time(false)).failure, "") << "without its being expected";
}

TEST(RankLock, NeedsItsBarrier) {
  const Outcome outcome = explore({.no_barrier = true}, come_and_go(2, false));
  EXPECT_NE(outcome.failure, "");
}

struct StillClock final : tern::Clock {
  uint64_t now_ns() override { return now += 10; }
  uint64_t now = 1'000'000'000;
};

/// What passes through the kernel is in order, by its locks: who gives it something, and then who is given that.
struct Kernel {
  void pass() {
    word.fetch_add(1, std::memory_order_acq_rel);
    note_change();
  }
  std::atomic<uint32_t> word{0};
};

/// A path to which messages come from outside, as by a socket.
struct Line final : Pollable {
  int poll() override { return std::exchange(waiting, 0); }
  bool arm() override { return waiting == 0; }
  int waiting = 0;
};

/// The thread's sleep: it ends when the timer may have ended, at any time after it was set, or the line has something.
struct Port final : EventPort {
  explicit Port(Kernel& test_kernel) : kernel(test_kernel) {}
  void start(EventClient&) override {}
  void stop() override {}
  void set_timer(uint64_t) override {
    kernel.pass();
    timer = true;
  }
  void watch_paths(bool on) override {
    kernel.pass();
    watching = on;
  }
  void poll_always(bool) override {}
  void barrier() override { explore::barrier(); }
  bool has_barrier() const override { return true; }
  Kernel& kernel;
  bool timer = false, watching = false;
};

/// One rank. What both threads use inside is shared memory, so that a wrong hand-over is a race, too.
struct Helped {
  Helped() {
    engine.add(line);
    lock.set_successor(&handler);
  }
  ~Helped() { lock.set_successor(nullptr); }
  void thread() {
    while (true) {
      bool tick = false, ready = false;
      wait_for([&] {
        tick = std::exchange(port.timer, false);
        ready = port.watching && line.waiting != 0;
        if (ready) port.watching = false;
        return tick || ready || over;
      });
      if (over && !tick && !ready) return;
      shared.kernel.pass();
      handler.on_wake(tick, ready);
      note_change();
    }
  }
  void come_and_go(Need then) {
    lock.enter();
    needed = then;
    lock.leave();
  }

  struct Shared {
    Kernel kernel;
    Driving lock;
    Need needed = Need::nothing;
  } shared;
  StillClock clock;
  NoWaiting nobody_waits;
  ProgressEngine engine{clock, shared.lock, nobody_waits};
  Line line;
  Port port{shared.kernel};
  bool over = false;
  Driving& lock = shared.lock;
  Need& needed = shared.needed;
  EventHandler handler{engine, port, [this] { return needed; }, {}};
};

/// The application calls, then stays away until its message has been taken, which only the thread can do;
/// `armed_before`: it is known to stay away.
Program stays_away(int calls, bool armed_before, bool waits_inside) {
  return [=](Execution& execution) {
    auto rank = std::make_shared<Helped>();
    execution.share(&rank->shared, sizeof rank->shared);
    execution.share(&rank->handler, sizeof rank->handler);
    if (armed_before) {
      rank->come_and_go(Need::now);
      rank->port.timer = false;
      rank->handler.on_wake(true, false);
      EXPECT_EQ(rank->lock.wake_source(), WakeSource::paths);
    }
    execution.thread([=] {
      for (int i = 0; i < calls; ++i) {
        rank->lock.enter();
        if (waits_inside) rank->handler.stand_aside();
        rank->needed = Need::now;
        rank->lock.leave();
      }
      rank->shared.kernel.pass();
      rank->line.waiting = 1;
      wait_for([&] { return rank->line.waiting == 0; });
      rank->over = true;
      note_change();
    });
    execution.thread([=] { rank->thread(); });
  };
}

TEST(EventHandler, WhatIsPendingHasSomebody) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 1};
  must_hold("EventHandler, first absence", bounds, stays_away(2, false, false));
}

TEST(EventHandler, WhatIsPendingHasSomebodyWhenThePathsAreArmed) {
  const Bounds bounds{.preemptions = 2, .old_values = 1};
  must_hold("EventHandler, armed", bounds, stays_away(2, true, false));
  must_hold("EventHandler, armed, waits inside", bounds, stays_away(2, true, true));
}

TEST(EventHandler, NeedsItsBarrier) {
  Bounds bounds{.preemptions = 3, .old_values = 2};
  bounds.no_barrier = true;
  EXPECT_NE(explore(bounds, stays_away(2, false, false)).failure, "");
}

/// Two threads of the program poll by turns. A piece of work that has its turn asks for the lock to be given up, as a
/// transfer to a file does; `held`: as it must be, in the middle of a round.
Program gives_way(bool held) {
  return [=](Execution& execution) {
    struct Rank {
      struct Path final : Pollable {
        explicit Path(Rank& its_rank) : rank(its_rank) {}
        int poll() override {
          require(!rank.shared.half_done, "another thread is in the middle of a round");
          return 0;
        }
        Rank& rank;
      };
      struct Work final : Advanceable {
        explicit Work(Rank& its_rank) : rank(its_rank) {}
        int advance() override {
          Driving& driving = rank.shared.driving;
          require(!std::exchange(rank.shared.half_done, true), "no second turn inside of one");
          if (!rank.held) driving.polling = driving.advancing = false;
          driving.come_back(driving.give_way());
          if (!rank.held) driving.polling = driving.advancing = true;
          rank.shared.half_done = false;
          if (++rank.shared.turns == 2) rank.engine.deactivate(*this);
          return 1;
        }
        Rank& rank;
      };
      explicit Rank(bool holds) : held(holds) {
        shared.driving.enable();
        engine.add(path);
        engine.activate(work);
      }
      const bool held;
      struct Shared {
        Driving driving;
        int turns = 0;
        bool half_done = false;
      } shared;
      StillClock clock;
      NoWaiting nobody_waits;
      ProgressEngine engine{clock, shared.driving, nobody_waits};
      Path path{*this};
      Work work{*this};
    };
    auto rank = std::make_shared<Rank>(held);
    execution.share(&rank->shared, sizeof rank->shared);
    execution.share(&rank->engine, sizeof rank->engine);
    for (int i = 0; i < 2; ++i) {
      execution.thread([=] {
        for (int k = 0; k < 2; ++k) {
          rank->shared.driving.enter();
          rank->engine.poll();
          rank->shared.driving.leave();
        }
      });
    }
    execution.finally([=] { require(rank->shared.turns == 2, "two turns"); });
  };
}

TEST(Driving, KeepsTheLockInTheMiddleOfARound) {
  const Bounds bounds{.preemptions = 3, .old_values = 2};
  must_hold("Driving, several threads", bounds, gives_way(true));
  EXPECT_NE(explore(bounds, gives_way(false)).failure, "") << "with the lock given up";
}

/// Two threads of the program wait for each other by turns: one sleeps on the paths, the other until it is called.
/// `notifies`: as it must, who changes what another waits for.
Program take_turns(int rounds, bool notifies) {
  return [=](Execution& execution) {
    struct Rank {
      /// Its sleep ends when it is woken.
      struct Bell final : WaitPort {
        void sleep(uint64_t, uint64_t) override {
          wait_for([&] { return rung; });
        }
        void wake() override {
          rung = true;
          note_change();
        }
        void forget_wake() override { rung = false; }
        bool rung = false;
      };
      static WaitPolicy::Setup sleeps_at_once() {
        WaitPolicy::Setup setup;
        setup.oversubscribed = true;
        return setup;
      }
      Rank() { shared.driving.enable(); }
      struct Shared {
        Driving driving;
        int turn = 0;
      } shared;
      StillClock clock;
      Bell bell;
      ProgressEngine engine{clock, shared.driving, bell, sleeps_at_once()};
    };
    auto rank = std::make_shared<Rank>();
    execution.share(&rank->shared, sizeof rank->shared);
    execution.share(&rank->engine, sizeof rank->engine);
    for (int me = 0; me < 2; ++me) {
      execution.thread([=] {
        for (int i = 0; i < rounds; ++i) {
          rank->shared.driving.enter();
          rank->engine.wait_until([&] { return rank->shared.turn == me; });
          rank->shared.turn = 1 - me;
          if (notifies) rank->engine.notify();
          rank->shared.driving.leave();
        }
      });
    }
    execution.finally([=] {
      require(rank->shared.driving.sleep.sleepers == 0, "nobody sleeps");
      require(rank->shared.driving.driver() == Driver::nobody, "nobody is inside");
    });
  };
}

TEST(Driving, NoWakeUpIsLost) {
  const Bounds bounds{.preemptions = 2, .old_values = 1};
  must_hold("Driving, threads that wait", bounds, take_turns(2, true));
  EXPECT_NE(explore(bounds, take_turns(2, false)).failure, "") << "without notify";
}

}  // namespace
}  // namespace tern::explore
