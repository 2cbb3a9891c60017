// Waiting on a real machine: no wake-up is lost, whoever causes it - another process through the
// shared-memory path, or another thread of the same rank. A lost one hangs the test (and ctest's timeout
// reports it).
#include <sched.h>

#include <atomic>
#include <climits>
#include <mutex>
#include <thread>
#include <utility>

#include "progress/driving.h"
#include "tests/unit/shm_helpers.h"

namespace tern::test {

namespace {

void send_small(TestRank& me, PeerId to, size_t bytes) {
  wire::Header header{wire::Kind::eager};
  const uint32_t number = me.sent[to]++;
  header.tag = int32_t(number);
  std::byte data[512];
  for (size_t i = 0; i < bytes; ++i) data[i] = pattern(me.rank, number, i);
  while (!me.path->try_send(me.path->lane(to), header, data, bytes)) me.engine->poll();
}

/// Neighbours in a ring play ping-pong, with rests in between; `polls_before_sleep` few, so that sleeping
/// and ringing meet at every point.
void ring_of(int ranks, int rounds, int64_t polls_before_sleep, bool expect_sleep) {
  run_processes(ranks, 16384, [&](int rank, auto node, Common& common) {
    Tunables tunables;
    tunables.yield_rounds = polls_before_sleep;
    tunables.spin_us = polls_before_sleep;  // a poll with its pause takes less
    TestRank me(uint32_t(rank), size_t(ranks), std::move(node), ranks > 2, tunables);
    Rng rng(uint64_t(rank) * 31 + 7);
    const auto next = PeerId((rank + 1) % ranks), previous = PeerId((rank + ranks - 1) % ranks);
    for (int round = 0; round < rounds; ++round) {
      if (rng.below(16) == 0) usleep(useconds_t(rng.below(150)));
      for (uint64_t pause = rng.below(300); pause-- > 0;) asm volatile("");
      send_small(me, next, rng.below(512));
      me.engine->wait_until([&] { return me.sink.from[previous].next > uint32_t(round); });
    }
    if (expect_sleep) {
      EXPECT_GT(me.engine->counters().sleeps, 0u);
    }
    common_fence(common, ranks);
    return true;
  });
}

TEST(Idle, RingSleepsAtOnce) { ring_of(4, 4000, 0, true); }
// Whether a rank sleeps here depends on the others: on a busy machine each yield may let them go on.
TEST(Idle, RingSleepsAfterFewYields) { ring_of(8, 1500, 5, false); }
TEST(Idle, SixteenRanks) { ring_of(16, 500, 20, false); }
// A rest of up to 150 us is longer than its partner spins.
TEST(Idle, PairSpinsThenSleeps) { ring_of(2, 4000, 50, true); }

/// Has nothing, and says what it was asked.
struct QuietPath : Pollable {
  int armed = 0;
  int poll() override { return 0; }
  bool arm() override {
    ++armed;
    return true;
  }
  void disarm() override { --armed; }
  uint64_t next_deadline_ns() const override { return deadline; }
  uint64_t deadline = ~uint64_t{0};
};

/// Every look at it costs `step_ns`: with a large step, a yield seems to have given the core to somebody who computes.
struct SteppingClock final : Clock {
  explicit SteppingClock(uint64_t step) : step_ns(step) {}
  uint64_t now_ns() override { return now += step_ns; }
  uint64_t step_ns, now = 0;
};

/// The kernel, except for what it says of this machine.
struct ModelledKernel final : KernelWait {
  explicit ModelledKernel(int (*tasks)(), int64_t (*preempted)() = nullptr) : runnable(tasks), preempts(preempted) {}
  int runnable_tasks() override { return runnable(); }
  int64_t preemptions() override { return preempts ? preempts() : 0; }
  int (*runnable)();
  int64_t (*preempts)();
};

/// Sleeps among the first 3000 fruitless rounds of a rank that yields, one of four on a machine with so many runnable
/// tasks.
uint64_t sleeps_among_yields(uint64_t step_ns, int (*runnable)()) {
  Tunables tunables;
  tunables.yield_rounds = 1'000'000;
  SteppingClock clock(step_ns);
  Driving driving;
  ModelledKernel port(runnable);
  ProgressEngine engine(clock, driving, port, WaitPolicy::Setup::of(tunables, true, 4));
  QuietPath path;
  path.deadline = 0;  // no sleep lasts
  engine.add(path);
  int rounds = 0;
  engine.wait_until([&] {
    rounds += path.armed == 0;  // who is about to sleep asks once more
    return rounds > 3000;
  });
  EXPECT_EQ(path.armed, 0);
  return engine.counters().sleeps;
}

/// A path with something left to do, so that nobody may sleep.
struct BusyPath final : QuietPath {
  bool arm() override { return false; }
};

TEST(Idle, WhoCannotSleepGivesTheLockUp) {
  Tunables tunables;
  tunables.yield_rounds = 0;
  Driving lock;
  lock.enable();
  lock.acquire();
  RealClock clock;
  KernelWait port;
  ProgressEngine engine(clock, lock, port, WaitPolicy::Setup::of(tunables, true));
  BusyPath path;
  engine.add(path);
  bool ready = false;
  std::thread other([&] {
    lock.acquire();
    ready = true;
    lock.release();
  });
  engine.wait_until([&] { return ready; });  // hangs when the other thread never gets in
  lock.release();
  other.join();
}

int ranks_alone() { return 4; }
int ranks_and_another() { return 5; }
int ranks_and_now_and_then_another() {
  static int looks = 0;
  return ++looks % 3 == 0 ? 5 : 4;
}

TEST(Idle, YieldsThatReturnSoonGoOn) { EXPECT_EQ(sleeps_among_yields(2000, ranks_and_another), 0u); }
TEST(Idle, YieldsThatGiveTheCoreAwayEndInSleep) {
  const uint64_t sleeps = sleeps_among_yields(3'000'000, ranks_and_another);
  EXPECT_GT(sleeps, 2980u);
  EXPECT_LT(sleeps, 3000u);  // yielding is tried again
}
TEST(Idle, YieldsThatGiveTheCoreToTheJobGoOn) { EXPECT_EQ(sleeps_among_yields(3'000'000, ranks_alone), 0u); }
TEST(Idle, YieldsBesideSomebodyWhoIsThereNowAndThenGoOn) {
  EXPECT_EQ(sleeps_among_yields(3'000'000, ranks_and_now_and_then_another), 0u);
}
TEST(Idle, RunnableTasksAreCounted) {
  std::atomic<bool> stop{false};
  std::thread busy[2];
  for (std::thread& thread : busy)
    thread = std::thread([&] {
      while (!stop) {
      }
    });
  int most = 0;  // the kernel's figure is a momentary one
  for (int i = 0; i < 1000 && most < 2; ++i) most = std::max(most, runnable_tasks());
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_GE(most, 2);
  EXPECT_LT(most, INT_MAX);
}

/// A rank with a core of its own, on a clock that a test moves: each look at it takes `step_ns`.
struct OwnCore {
  explicit OwnCore(uint64_t step_ns) : clock(step_ns), port(ranks_alone, [] { return preemptions; }) {
    preemptions = 0;
    path.deadline = 0;  // no sleep lasts
    engine.add(path);
  }
  /// Waits until it sleeps; returns after how long.
  uint64_t polls_for() {
    const uint64_t began = clock.now, sleeps = engine.counters().sleeps;
    engine.wait_until([&] { return path.armed == 0 && engine.counters().sleeps != sleeps; });
    return clock.now - began;
  }
  static inline int64_t preemptions = 0;
  SteppingClock clock;
  Driving driving;
  ModelledKernel port;
  ProgressEngine engine{clock, driving, port, WaitPolicy::Setup::of(Tunables(), false, 2)};
  QuietPath path;
};

TEST(Idle, WithACoreOfItsOwnARankPollsUntilASleepIsCheap) {
  OwnCore rank(2000);
  EXPECT_NEAR(double(rank.polls_for()), 10e6, 1e5);
  rank.clock.step_ns = 3'000'000;  // gaps, in which somebody else has the core
  OwnCore::preemptions = 1;
  EXPECT_GE(rank.polls_for(), 10'000'000u) << "the count has not changed since it was asked first";
  rank.clock.step_ns = 2000;
  EXPECT_NEAR(double(rank.polls_for()), 10e6, 1e5);
}

TEST(Idle, PreemptionsAreCounted) {
  std::atomic<bool> stop{false};
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  std::thread busy([&] {
    while (!stop) {
    }
  });
  const int64_t first = preemptions_of_this_thread();
  RealClock clock;
  for (const uint64_t end = clock.now_ns() + 20'000'000'000; clock.now_ns() < end;) {
    if (preemptions_of_this_thread() > first + 2) break;
  }
  stop = true;
  busy.join();
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_GT(preemptions_of_this_thread(), first + 2);
}

TEST(Idle, DeadlineEndsSleep) {
  Tunables tunables;
  tunables.spin_us = 1;
  RealClock clock;
  Driving driving;
  KernelWait port;
  ProgressEngine engine(clock, driving, port, WaitPolicy::Setup::of(tunables, false));
  QuietPath path;
  engine.add(path);
  const uint64_t start = clock.now_ns();
  path.deadline = start + 20'000'000;
  engine.wait_until([&] { return clock.now_ns() >= path.deadline; });
  EXPECT_GE(engine.counters().sleeps, 1u);
  EXPECT_LE(engine.counters().sleeps, 5u);
  EXPECT_EQ(path.armed, 0);
}

/// A path whose arm finds out, without a poll that handles anything, that what is waited for has happened.
struct LearningPath final : QuietPath {
  bool arm() override {
    learnt = true;
    return QuietPath::arm();
  }
  bool learnt = false;
};

TEST(Idle, WhatIsWaitedForIsAskedAgainBeforeSleep) {
  Tunables tunables;
  tunables.spin_us = 1;
  RealClock clock;
  Driving driving;
  KernelWait port;
  ProgressEngine engine(clock, driving, port, WaitPolicy::Setup::of(tunables, false));
  LearningPath path;
  path.deadline = clock.now_ns() + 5'000'000'000;  // who sleeps through it
  engine.add(path);
  engine.wait_until([&] { return path.learnt; });
  EXPECT_EQ(engine.counters().sleeps, 0u);
  EXPECT_EQ(path.armed, 0);
}

/// A rank of several threads to which nothing ever comes.
struct SharedRank {
  explicit SharedRank(int spins) : engine(clock, lock, port, WaitPolicy::Setup::of(spinning(spins), false)) {
    lock.enable();
    engine.add(path);
  }
  static Tunables spinning(int spins) {
    Tunables tunables;
    tunables.spin_us = tunables.yield_rounds = spins;
    return tunables;
  }
  RealClock clock;
  Driving lock;
  KernelWait port;
  ProgressEngine engine;
  QuietPath path;
};

struct Inside {
  explicit Inside(Driving& rank_lock) : lock(rank_lock) { lock.enter(); }
  ~Inside() { lock.leave(); }
  Driving& lock;
};

/// A thread polls 200 times; its rank has `cores` and other threads that are called or awake. Returns how often the
/// thread has yielded.
uint64_t yields_beside(int called, int turning, int cores, uint64_t look_ns = 1) {
  SteppingClock clock(look_ns);  // too little time passes for a sleep
  Driving driving;
  KernelWait port;
  ProgressEngine engine(clock, driving, port, WaitPolicy::Setup::of(Tunables(), false, 2, cores));
  QuietPath path;
  driving.enable();
  engine.add(path);
  const Inside inside(driving);
  driving.sleep.called = called;
  driving.sleep.turning = turning;
  int polls = 0;
  engine.wait_until([&] { return ++polls > 200; });
  driving.sleep.called = driving.sleep.turning = 0;
  return engine.counters().yields;
}

// A thread that has been called needs a core: this one's, if there is no other.
TEST(Idle, AThreadYieldsToOnesThatHaveBeenCalled) {
  EXPECT_EQ(yields_beside(0, 0, 1), 0u);
  EXPECT_GE(yields_beside(1, 0, 1), 50u);
  EXPECT_EQ(yields_beside(1, 0, 2), 0u);
  EXPECT_GE(yields_beside(2, 0, 2), 50u);
}

// Two threads of two ranks answer each other sooner than threads of one core can take turns.
TEST(Idle, AThreadYieldsToOnesThatPollOnlyWhenItsAnswerIsLate) {
  const uint64_t switch_ns = WaitingLimits().switch_ns;
  EXPECT_EQ(yields_beside(0, 1, 1, switch_ns / 1000), 0u) << "200 polls take a fifth of that time";
  EXPECT_GE(yields_beside(0, 1, 1, switch_ns / 50), 50u) << "200 polls take four times as long";
  EXPECT_EQ(yields_beside(0, 1, 2, switch_ns / 50), 0u);
}

TEST(Idle, ThreadsWakeEachOther) {
  // Each thread waits for its own counter, which only its neighbour moves on, under the lock and with
  // notify().
  constexpr int kThreads = 4, kRounds = 2000;
  SharedRank rank(2);
  Driving& lock = rank.lock;
  ProgressEngine& engine = rank.engine;
  int turns[kThreads] = {};
  std::vector<std::thread> threads;
  for (int me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      for (int round = 1; round <= kRounds; ++round) {
        Inside inside(lock);
        if (me != 0) engine.wait_until([&] { return turns[me] >= round; });
        ++turns[(me + 1) % kThreads];
        engine.notify();
        if (me == 0) engine.wait_until([&] { return turns[0] >= round; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lock.sleep.sleepers, 0);
  for (int turn : turns) EXPECT_EQ(turn, kRounds);
}

// The same for a thread that would only follow the one that drives.
TEST(Idle, AFollowerAsksAgainBeforeSleep) {
  SharedRank rank(0);
  Driving& lock = rank.lock;
  ProgressEngine& engine = rank.engine;
  bool over = false;
  std::thread driver([&] {
    Inside inside(lock);
    engine.wait_until([&] { return over; });
  });
  while (true) {
    Inside inside(lock);
    if (lock.sleep.sleepers == 1) break;
  }
  std::thread rescuer([&] {
    for (int i = 0; i < 500; ++i) {
      usleep(10'000);
      Inside inside(lock);
      if (over) return;
    }
    Inside inside(lock);
    engine.notify();
  });
  uint64_t sleeps;
  {
    Inside inside(lock);
    int asked = 0;
    engine.wait_until([&] { return ++asked >= 2; });
    sleeps = engine.counters().sleeps;
    over = true;
    engine.notify();
  }
  driver.join();
  rescuer.join();
  EXPECT_EQ(sleeps, 1u) << "the driver's";
}

/// A path to which something comes when a test says so.
struct BusyLine final : QuietPath {
  int poll() override { return std::exchange(arrived, 0); }
  int arrived = 0;
};

// What comes for one thread of a rank does not wake the others.
TEST(Idle, OnlyWhoIsMeantIsCalled) {
  constexpr int kThreads = 5, kEvents = 50;
  SharedRank rank(0);
  BusyLine line;
  rank.engine.add(line);
  bool over[kThreads] = {};
  std::vector<std::thread> threads;
  for (int me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      Inside inside(rank.lock);
      rank.engine.wait_until([&] { return over[me]; });
    });
  }
  auto asleep = [&] {
    Inside inside(rank.lock);
    return rank.lock.sleep.sleepers == kThreads;
  };
  while (!asleep()) usleep(1000);
  for (int event = 0; event < kEvents; ++event) {
    {
      Inside inside(rank.lock);
      line.arrived = 1;
      EXPECT_EQ(rank.engine.poll(), 1);
    }
    usleep(1000);
  }
  for (int me = 0; me < kThreads; ++me) {
    Inside inside(rank.lock);
    over[me] = true;
    line.arrived = 1;
    rank.engine.poll();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rank.lock.sleep.sleepers, 0);
  // Each once, and once more who is called to drive.
  EXPECT_LE(rank.engine.counters().sleeps, 2u * kThreads);
  EXPECT_LE(rank.engine.counters().wakes, 3u * kThreads);
}

// A thread that leaves may have begun what has a deadline: who sleeps on the paths looks after it.
TEST(Idle, ASleeperHearsOfDeadlines) {
  SharedRank rank(0);
  uint64_t ended_ns = 0;
  bool rescued = false;
  std::thread sleeper([&] {
    Inside inside(rank.lock);
    rank.engine.wait_until([&] { return rank.clock.now_ns() >= rank.path.deadline; });
    ended_ns = rank.clock.now_ns();
  });
  for (bool asleep = false; !asleep; usleep(1000)) {
    Inside inside(rank.lock);
    asleep = rank.lock.sleep.sleepers == 1;
  }
  uint64_t deadline;
  {
    Inside inside(rank.lock);
    rank.path.deadline = deadline = rank.clock.now_ns() + 20'000'000;
  }
  std::thread rescuer([&] {
    for (int i = 0; i < 500; ++i) {
      usleep(10'000);
      Inside inside(rank.lock);
      if (ended_ns != 0) return;
    }
    Inside inside(rank.lock);
    rescued = ended_ns == 0;
    rank.engine.notify();
  });
  sleeper.join();
  rescuer.join();
  EXPECT_FALSE(rescued) << "the sleeper did not notice the new deadline";
  EXPECT_GE(ended_ns, deadline);
}

/// Of so many fruitless polls of a rank that shares its core, those after which it yielded. Every wait ends with its
/// `polls_a_wait`-th poll.
uint64_t yields_of(uint32_t waits, uint32_t polls_a_wait) {
  RealClock clock;
  Driving driving;
  ModelledKernel port(ranks_alone);
  ProgressEngine engine(clock, driving, port, WaitPolicy::Setup::of(Tunables(), true, 4));
  for (uint32_t i = 0; i < waits; ++i) {
    uint32_t asked = 0;
    engine.wait_until([&] { return asked++ == polls_a_wait; });
  }
  return engine.counters().yields;
}

constexpr WaitingLimits kLimits;

// Who is mostly answered while it spins keeps its core; who is not yields at once but for a trial now and then.
TEST(Idle, WhoIsAnsweredSoonKeepsTheCore) {
  EXPECT_EQ(yields_of(kLimits.spin_trial_interval, 5), 5 * kLimits.spin_trial_interval);
  EXPECT_EQ(yields_of(10'000, 5), 5 * kLimits.spin_trial_interval);
}
TEST(Idle, WhoIsNotAnsweredSoonYields) {
  constexpr uint32_t kWaits = 10 * kLimits.spin_trial_interval, kPolls = kLimits.spin_polls + 8;
  const uint64_t yields = yields_of(kWaits, kPolls);
  EXPECT_GT(yields, uint64_t{kWaits} * kPolls * 95 / 100);
  EXPECT_LT(yields, uint64_t{kWaits} * kPolls);  // it was tried
}

// A loop of MPI_Test gives its turn away where ranks or threads share cores, and only there.
TEST(Idle, WhoLooksInVainGivesItsTurn) {
  RealClock clock;
  for (const bool oversubscribed : {false, true}) {
    for (const bool several_threads : {false, true}) {
      Driving lock;
      if (several_threads) lock.enable();
      ModelledKernel port(ranks_alone);
      ProgressEngine engine(clock, lock, port, WaitPolicy::Setup::of(Tunables(), oversubscribed, 4));
      lock.enter();
      for (uint32_t i = 0; i < 10 * limits_of(Look::test).looks; ++i) engine.look();
      lock.leave();
      EXPECT_EQ(engine.counters().yields, oversubscribed || several_threads ? 10u : 0u);
    }
  }
}

struct SeldomPath final : QuietPath {
  uint32_t polls = 0;
  int poll() override {
    ++polls;
    return 0;
  }
};

// Where ranks share cores, a round may take as long as the turns of all others: 32 of them would be too long.
TEST(Idle, WhoYieldsLooksAtEveryPathSoon) {
  RealClock clock;
  Tunables tunables;
  tunables.yield_rounds = 1'000'000;
  tunables.spin_us = 60'000'000;  // nor does a busy machine end the wait
  for (const bool oversubscribed : {false, true}) {
    Driving driving;
    ModelledKernel port(ranks_alone);
    ProgressEngine engine(clock, driving, port, WaitPolicy::Setup::of(tunables, oversubscribed, 4));
    SeldomPath seldom;
    seldom.deadline = 0;  // no sleep lasts
    constexpr uint32_t kRounds = 960, kInterval = 32;
    engine.add(seldom, kInterval);
    uint32_t asked = 0;
    engine.wait_until([&] { return asked++ >= kRounds; });
    const uint64_t yields = engine.counters().yields;
    EXPECT_EQ(yields > kRounds / 2, oversubscribed);
    if (oversubscribed) EXPECT_GE(seldom.polls + 1, yields / kLimits.yields_per_whole_round);  // none after the last
    else EXPECT_EQ(seldom.polls, kRounds / kInterval);
  }
}

}  // namespace
}  // namespace tern::test
