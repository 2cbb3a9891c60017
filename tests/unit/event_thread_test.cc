// The event thread's hand-overs (progress/event_thread.h): whatever the application does between them, somebody looks
// after what is pending. One that is lost makes `until` fail.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/hints.h"
#include "base/tunables.h"
#include "progress/event_handler.h"
#include "progress/event_thread.h"
#include "progress/kernel_wait.h"

namespace tern::test {
namespace {

/// Events are rung for on it.
struct BellPath final : Pollable {
  BellPath() : fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~BellPath() override { close(fd); }
  int poll() override {
    ++polls;
    if (at_poll) at_poll();
    uint64_t count = 0;
    if (read(fd, &count, sizeof count) != sizeof count) return 0;
    by = gettid();
    if (answers) ++counters->rma_answers;
    events += int(count);
    return int(count);
  }
  void count_into(Counters& table) override { counters = &table; }
  int wait_fd() const override { return fd; }
  bool arm() override {
    if (!may_sleep) return false;
    ++armed;
    return true;
  }
  void disarm() override { --armed; }
  bool arriving() const override { return goes_on; }
  uint64_t next_deadline_ns() const override {
    if (at_armed) at_armed();
    return deadline_ns;
  }

  void ring() const {
    const uint64_t one = 1;
    ASSERT_EQ(write(fd, &one, sizeof one), ssize_t(sizeof one));
  }

  const int fd;
  std::atomic<int> events{0}, polls{0}, armed{0};
  std::atomic<pid_t> by{0};  ///< the thread that handled the last event
  std::atomic<bool> answers{false};
  Counters* counters = nullptr;
  std::atomic<bool> may_sleep{true}, goes_on{false};
  std::atomic<uint64_t> deadline_ns{~uint64_t{0}};
  std::function<void()> at_poll;   ///< set while the thread sleeps
  std::function<void()> at_armed;  ///< when the thread watches already, and the application is still inside
};

/// One rank whose application is this test's thread. `several`: as if there were more such threads (the lock is a
/// mutex).
struct Helped {
  explicit Helped(bool several, const EventLimits& limits = {}, bool lingers = true) : port(engine, lingers) {
    if (several) lock.enable();
    engine.add(path);
    thread = std::make_unique<EventHandler>(
        engine, port, [this] { return needed.load(); }, limits);
    port.start(*thread);
    lock.set_successor(thread.get());
  }
  ~Helped() { end(); }
  /// The thread ends; what it has counted can be read.
  void end() {
    if (!thread) return;
    lock.set_successor(nullptr);
    port.stop();
    thread.reset();
  }

  bool watches() { return lock.wake_source() != WakeSource::nobody; }
  bool is_covered(Need need) { return covers(lock.wake_source(), need); }
  bool sleeps_on_paths() { return lock.wake_source() == WakeSource::paths; }

  /// Whether it comes true while this thread does nothing else.
  template <typename Condition>
  bool until(Condition&& condition, uint64_t patience_ns = 20 * kSecond_ns) {
    for (const uint64_t end = clock.now_ns() + patience_ns; !condition();) {
      if (clock.now_ns() > end) return false;
      usleep(20);
    }
    return true;
  }
  /// The application has come and gone, and does not come back until the thread has armed.
  void hand_over() {
    lock.enter();
    lock.leave();
    ASSERT_TRUE(until([&] { return path.armed == 1; }));
  }
  /// A call that looks at what is there, as every waiting one does.
  void come_and_go() {
    lock.enter();
    thread->stand_aside();
    engine.poll();
    lock.leave();
  }
  /// An event is handled though the application stays away.
  bool is_watched() {
    const int before = path.events;
    path.ring();
    return until([&] { return path.events > before; });  // two where an earlier ring was still to be handled
  }

  RealClock clock;
  Driving lock;
  KernelWait wait_port;
  ProgressEngine engine{clock, lock, wait_port, WaitPolicy::Setup::of(Tunables(), false)};
  BellPath path;
  std::atomic<Need> needed{Need::now};
  EventThread port;
  std::unique_ptr<EventHandler> thread;
};

class EventThreadTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Lock, EventThreadTest, testing::Bool(),
                         [](auto& parameter) { return parameter.param ? "mutex" : "helped"; });

TEST_P(EventThreadTest, EventsAreHandledWhileTheApplicationIsAway) {
  Helped rank(GetParam());
  rank.hand_over();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(rank.is_watched());
  for (int i = 0; i < 10; ++i) {
    rank.come_and_go();
    EXPECT_TRUE(rank.is_watched());
  }
}

TEST_P(EventThreadTest, NobodyIsWokenWhileNothingIsPending) {
  Helped rank(GetParam());
  rank.needed = Need::nothing;
  rank.come_and_go();
  EXPECT_FALSE(rank.watches());
  const int polls = rank.path.polls;
  rank.path.ring();
  usleep(20'000);
  EXPECT_EQ(rank.path.polls, polls);
  rank.needed = Need::now;
  rank.lock.enter();
  rank.lock.leave();
  EXPECT_TRUE(rank.until([&] { return rank.path.events == 1; }));
}

// What only others bring to an end wakes nobody, but is looked at after some time; and it does not hide what is begun
// next.
TEST_P(EventThreadTest, WhatCanWaitIsLookedAtLater) {
  Helped rank(GetParam());
  rank.hand_over();  // who stayed away once
  for (int i = 0; i < 3; ++i) {
    rank.needed = Need::later;
    rank.come_and_go();
    EXPECT_TRUE(rank.is_covered(Need::later));
    ASSERT_FALSE(rank.is_covered(Need::now));
    EXPECT_EQ(rank.path.armed, 0);
    rank.needed = Need::now;
    rank.lock.enter();
    rank.lock.leave();
    ASSERT_TRUE(rank.is_covered(Need::now));
    ASSERT_TRUE(rank.is_watched());
    rank.needed = Need::later;
    rank.come_and_go();
    const int events = rank.path.events;
    rank.path.ring();
    ASSERT_TRUE(rank.until([&] { return rank.path.events > events; })) << "in the end it is looked at";
    ASSERT_TRUE(rank.until([&] { return rank.is_covered(Need::later); })) << "again and again";
    rank.needed = Need::nothing;
    ASSERT_TRUE(rank.until([&] { return !rank.watches(); }));
  }
}

// Asking what is pending each time costs more than a timer that runs, for who comes and goes all the time; when he
// stays away nobody is woken any more, and what he begins is looked after as ever.
TEST_P(EventThreadTest, WhoComesAndGoesAllTheTimeHasATimer) {
  Helped rank(GetParam());
  rank.needed = Need::nothing;
  auto visits = [&](useconds_t pause_us) {
    for (uint32_t i = 0; i < 200 && !rank.watches(); ++i) {
      rank.lock.enter();
      rank.lock.leave();
      if (pause_us != 0) usleep(pause_us);
    }
    return rank.watches();
  };
  EXPECT_FALSE(visits(50));
  if (rank.lock.enabled()) return;  // the mutex costs more than asking
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(rank.until([&] { return visits(0); }));
    const int polls = rank.path.polls;
    ASSERT_TRUE(rank.until([&] { return !rank.watches(); }));
    EXPECT_EQ(rank.path.polls, polls);
    ASSERT_TRUE(rank.until([&] { return visits(0); }));
    rank.needed = Need::now;
    EXPECT_TRUE(rank.is_watched());
    rank.needed = Need::nothing;
    rank.come_and_go();
  }
}

// A rank that has to wait for its turn is away for longer than it computes; the thread would take another turn from it.
TEST_P(EventThreadTest, WhereRanksTakeTurnsShortAbsencesAreLeftAlone) {
  auto armed_of_50 = [&](const EventLimits& limits) {
    Helped rank(GetParam(), limits);
    int armed = 0;
    for (int i = 0; i < 50; ++i) {
      rank.come_and_go();
      for (const uint64_t end = rank.clock.now_ns() + 200'000; rank.clock.now_ns() < end;) cpu_pause();
      armed += rank.path.armed;
    }
    return armed;
  };
  // (On a busy machine the thread comes late, and any absence may be long.)
  int armed = 0;
  for (int i = 0; i < 100 && armed <= 10; ++i) armed = armed_of_50(EventLimits());
  EXPECT_GT(armed, 10);
  for (int i = 0; i < 100 && armed > 5; ++i) armed = armed_of_50(EventLimits::shared_cores());
  EXPECT_LE(armed, 5);
  Helped rank(GetParam(), EventLimits::shared_cores());
  rank.hand_over();
  EXPECT_TRUE(rank.is_watched());
}

// A burst of calls none of which waits: the paths are not left armed under it, where each message may wake the thread.
TEST_P(EventThreadTest, WhoComesBackForManyCallsIsNotAway) {
  Helped rank(GetParam());
  rank.hand_over();
  auto call = [&] {
    rank.lock.enter();
    rank.lock.leave();
    return rank.path.armed == 0;
  };
  for (int i = 0; i < 10; ++i) {
    usleep(2000);  // now and then one call, though, is no reason to disarm
    EXPECT_FALSE(call());
  }
  EXPECT_TRUE(rank.until([&] {
    for (int i = 0; i < 10; ++i) call();
    return call();
  }));
  EXPECT_TRUE(rank.watches());
  EXPECT_TRUE(rank.is_watched());
}

// Who leaves handles what is here by himself: the thread would be woken at once, while he is still inside.
TEST_P(EventThreadTest, WhatIsHereWhenTheApplicationLeavesWakesNobody) {
  Helped rank(GetParam());
  rank.hand_over();
  for (int i = 0; i < 10; ++i) {
    rank.lock.enter();
    rank.thread->stand_aside();
    rank.path.ring();
    rank.lock.leave();
    EXPECT_EQ(rank.path.events, i + 1);
    usleep(2000);
  }
  rank.end();
  EXPECT_EQ(rank.engine.counters().event_wakes, 0u);
}

// A burst of small messages, which wait for each other until a poll. The application stayed away once, so leaving polls
// before it arms, which ends the burst each time; but it is back at once, again and again, so it stays inside.
TEST_P(EventThreadTest, WhoIsBackAtOnceIsNotPolledForEachTime) {
  EventLimits limits;
  limits.first_grace_ns = kSecond_ns / 5;
  limits.soon_ns = kSecond_ns;
  Helped rank(GetParam(), limits);
  rank.hand_over();
  rank.lock.enter();
  rank.thread->stand_aside();
  rank.path.at_poll = [&] { rank.needed = Need::nothing; };
  const auto polls_of = [&](int calls) {
    const int before = rank.path.polls;
    for (int i = 0; i < calls; ++i) {
      rank.needed = Need::now;
      rank.lock.leave();
      rank.lock.enter();
    }
    return rank.path.polls - before;
  };
  EXPECT_GE(polls_of(10), 1);
  EXPECT_LT(polls_of(100), 50);
  rank.lock.leave();
  EXPECT_TRUE(rank.until([&] { return rank.needed == Need::nothing; })) << "its end is polled for by the thread";
}

// In the middle of a message the thread does not sleep, unless others of the application's may want the lock.
// What comes just when the application leaves wakes the thread too soon, but does not mean that the application does
// not stay away.
TEST_P(EventThreadTest, WhatComesWhenTheApplicationLeavesIsNotItsReturn) {
  Helped rank(GetParam());
  if (rank.lock.enabled()) GTEST_SKIP() << "the thread then waits for the lock";
  rank.hand_over();
  std::atomic<bool> comes{false};
  rank.lock.enter();
  rank.path.at_armed = [&] {
    if (!comes || !rank.sleeps_on_paths()) return;
    comes = false;
    rank.path.ring();
    rank.until([&] { return !rank.watches(); });
    usleep(1000);  // it has found the application inside
  };
  rank.lock.leave();
  for (int i = 0; i < 6; ++i) {
    comes = true;
    rank.come_and_go();
    EXPECT_FALSE(comes);
    EXPECT_TRUE(rank.sleeps_on_paths()) << i;
    ASSERT_TRUE(rank.is_watched());
  }
}

TEST_P(EventThreadTest, WhatIsArrivingIsAwaitedAwake) {
  Helped rank(GetParam());
  rank.hand_over();
  rank.path.goes_on = true;
  ASSERT_TRUE(rank.is_watched());
  if (!rank.lock.enabled()) {
    const int polls = rank.path.polls;
    ASSERT_TRUE(rank.until([&] { return rank.path.polls > polls + 100; }));
    EXPECT_EQ(rank.path.armed, 0);
  }
  rank.come_and_go();  // and gives way to the application
  rank.path.goes_on = false;
  EXPECT_TRUE(rank.until([&] { return rank.path.armed == 1; }));
  EXPECT_TRUE(rank.is_watched());
}

// A thread that must poll all the time never sleeps, gives way to the application, and sleeps again when it may.
TEST_P(EventThreadTest, WhoMustPollAlwaysDoes) {
  Helped rank(GetParam());
  for (int round = 0; round < 3; ++round) {
    rank.lock.enter();
    rank.needed = Need::always;
    rank.thread->poll_always();
    rank.lock.leave();
    EXPECT_TRUE(rank.is_covered(Need::always));
    const int polls = rank.path.polls;
    ASSERT_TRUE(rank.until([&] { return rank.path.polls > polls + 100; }));
    EXPECT_EQ(rank.path.armed, 0);
    ASSERT_TRUE(rank.is_watched());
    for (int i = 0; i < 1000; ++i) rank.come_and_go();
    ASSERT_TRUE(rank.is_watched());
    rank.lock.enter();
    const int inside = rank.path.polls;
    usleep(1000);
    EXPECT_EQ(rank.path.polls, inside) << "while the application is inside";
    rank.needed = round == 2 ? Need::nothing : Need::now;
    rank.lock.leave();
    if (round == 2) EXPECT_TRUE(rank.until([&] { return !rank.watches(); }));
    else EXPECT_TRUE(rank.until([&] { return rank.sleeps_on_paths(); }));
  }
}

TEST_P(EventThreadTest, ADeadlineOfAPathIsKept) {
  Helped rank(GetParam());
  rank.path.deadline_ns = rank.clock.now_ns() + 50'000'000;
  rank.hand_over();
  const int polls = rank.path.polls;
  EXPECT_TRUE(rank.until([&] { return rank.path.polls > polls; }));
  EXPECT_GE(rank.clock.now_ns(), rank.path.deadline_ns);
  rank.path.deadline_ns = ~uint64_t{0};
}

// What the application begins while the thread sleeps may have to be repeated, which nothing but the clock says.
TEST_P(EventThreadTest, ADeadlineThatComesUpLaterIsKept) {
  Helped rank(GetParam());
  rank.hand_over();
  rank.lock.enter();
  rank.path.deadline_ns = rank.clock.now_ns() + 20'000'000;
  const int polls = rank.path.polls;
  rank.lock.leave();
  EXPECT_TRUE(rank.until([&] { return rank.path.polls > polls; }));
  rank.path.deadline_ns = ~uint64_t{0};
}

// The application leaves just when the thread, whose timer has ended, stands before the lock: both look for who watches
// next. The paths' deadline, a minute away, must not take the place of a timer that is still counted on.
TEST(EventThread, TheTimerOfAnotherIsNotForgotten) {
  for (int round = 0, tries = 0; round < 20; ++tries) {
    ASSERT_LT(tries, 1000) << "the thread is always there first";
    Helped rank(true);
    rank.path.deadline_ns = rank.clock.now_ns() + 60 * kSecond_ns;
    rank.lock.enter();
    rank.lock.leave();
    rank.lock.enter();
    // On a busy machine this thread may be away here for so long that the other one has come in, and sleeps on the
    // paths: another try.
    const bool decided = rank.until([&] { return !rank.watches() || rank.sleeps_on_paths(); });
    const bool before_the_lock = !rank.watches();
    rank.lock.leave();
    ASSERT_TRUE(decided);
    if (before_the_lock) ++round;
    ASSERT_TRUE(rank.until([&] { return rank.path.armed == 1; }));
    rank.come_and_go();
    ASSERT_TRUE(rank.is_watched()) << round;
  }
}

// Something is here that polls do not move and that nobody may sleep on.
TEST_P(EventThreadTest, WhatCannotBeSleptOnIsLookedAtAgain) {
  Helped rank(GetParam());
  rank.path.may_sleep = false;
  rank.lock.enter();
  rank.lock.leave();
  int polls = 0;
  for (int i = 0; i < 10; ++i) {
    polls = rank.path.polls;
    ASSERT_TRUE(rank.until([&] { return rank.path.polls > polls; })) << i;
  }
  EXPECT_LT(rank.path.polls, 1000) << "it must not poll all the time";
  rank.path.may_sleep = true;
  EXPECT_TRUE(rank.until([&] { return rank.path.armed == 1; }));
  rank.path.may_sleep = false;  // and who is known to stay away cannot arm when it leaves
  rank.come_and_go();
  rank.path.may_sleep = true;
  EXPECT_TRUE(rank.until([&] { return rank.path.armed == 1; }));
  EXPECT_TRUE(rank.is_watched());
}

// How often a thread has gone to sleep.
int sleeps_of(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  std::string word;
  int count = -1;
  while (status >> word) {
    if (word == "voluntary_ctxt_switches:") status >> count;
  }
  return count;
}

// Messages in pairs, the second one some microseconds behind the first, and answered: the thread does not sleep in
// between, once it has seen some of them; unless it must not look on.
TEST(EventThread, WhatComesSoonAfterAMessageFindsItAwake) {
  constexpr int kPairs = 10;
  const auto sleeps_of_pairs = [](Helped& rank) {
    const auto ring_and_wait = [&](uint64_t after_ns) {
      for (const uint64_t end = rank.clock.now_ns() + after_ns; rank.clock.now_ns() < end;) cpu_pause();
      const int before = rank.path.events;
      rank.path.ring();
      while (rank.path.events == before) cpu_pause();
    };
    const int before = sleeps_of(rank.path.by);
    for (int i = 0; i < kPairs; ++i) {
      ring_and_wait(300'000);
      rank.path.answers = true;
      ring_and_wait(5000);
      rank.path.answers = false;
    }
    return sleeps_of(rank.path.by) - before;
  };
  for (const bool lingers : {true, false}) {
    Helped rank(false, EventLimits(), lingers);
    rank.hand_over();
    ASSERT_TRUE(rank.is_watched());
    // On a busy machine the second one may come late, or find that the thread has not slept yet: in most runs of pairs,
    // but not in all.
    int sleeps = 0;
    const auto as_expected = [&] {
      sleeps = sleeps_of_pairs(rank);
      return lingers ? sleeps <= kPairs + 1 : sleeps >= 2 * kPairs - 1;
    };
    EXPECT_TRUE(rank.until(as_expected)) << sleeps << (lingers ? " sleeps, it may look on" : " sleeps, it must not");
  }
}

// Linux 6.12 and later; older kernels report 0 for both.
TEST(EventThread, ItHasShorterTimeSlicesThanTheApplication) {
  Helped rank(false);
  rank.hand_over();
  ASSERT_TRUE(rank.is_watched());
  const auto slice_ns = [](pid_t thread) {
    uint64_t attributes[6] = {};  // the fourth is the slice
    EXPECT_EQ(syscall(SYS_sched_getattr, thread, attributes, sizeof attributes, 0), 0);
    return attributes[3];
  };
  if (slice_ns(0) == 0) GTEST_SKIP() << "this kernel has no slices of a thread's own";
  EXPECT_LT(slice_ns(rank.path.by), slice_ns(0));
}

// Threads come and go at all moments, some of them wait inside; after each burst all are away and an event is handled.
TEST(EventThread, ThreadsThatComeAndGo) {
  constexpr int kThreads = 3, kRounds = 60;
  Helped rank(true);
  for (int round = 0; round < kRounds; ++round) {
    rank.path.deadline_ns = rank.clock.now_ns() + 60 * kSecond_ns;
    std::vector<std::thread> threads;
    for (int me = 0; me < kThreads; ++me) {
      threads.emplace_back([&, me] {
        for (int i = 0; i < 20; ++i) {
          const int before = rank.path.events;
          rank.lock.enter();
          if ((i + me) % 4 == 0) {
            rank.path.ring();
            rank.engine.wait_until([&] { return rank.path.events > before; });
          }
          rank.lock.leave();
          usleep(useconds_t((i * 7 + me * 31 + round) % 120));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(rank.is_watched()) << round;
  }
}

}  // namespace
}  // namespace tern::test
