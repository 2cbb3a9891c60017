// When small messages wait for one another (fabric/coalescing.h), and that they arrive all the same.
#include "fabric/coalescing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tcp_fixture.h"

namespace tern {
namespace {

/// A program that sends bursts and then computes, or not.
struct Program {
  Coalescing coalescing;
  uint64_t now_ns = 1'000'000, polls = 0;
  bool blocking = false;  ///< the first of a burst

  /// Sends `messages`, then polls after `pause_ns`. How many of them were allowed to wait. One that was not takes the
  /// kernel `kernel_ns`.
  int burst(int messages, uint64_t pause_ns, uint64_t kernel_ns = 0) {
    int waited = 0;
    for (int i = 0; i < messages; ++i) {
      const bool waits = coalescing.may_wait(now_ns, polls, blocking && i == 0);
      waited += waits;
      now_ns += 200;
      if (waits || kernel_ns == 0) continue;
      now_ns += kernel_ns;
      coalescing.has_left(now_ns);
    }
    now_ns += pause_ns;
    if (coalescing.open()) coalescing.end(now_ns);
    ++polls;
    now_ns += 100'000;
    return waited;
  }
};

TEST(Coalescing, MessagesWaitWhenPollsHaveFollowedSoon) {
  Program program;
  for (int i = 0; i < 8; ++i) EXPECT_EQ(program.burst(3, 500), 0) << "nothing is known of this program yet";
  EXPECT_EQ(program.burst(10, 500), 10);
}

// The first of a burst waits for another only where one has come most times.
TEST(Coalescing, AMessageAloneDoesNotWait) {
  Program program;
  for (int i = 0; i < 20; ++i) program.burst(2, 500);
  EXPECT_EQ(program.burst(1, 500), 1) << "so far another one has followed";
  program.burst(1, 500);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(program.burst(1, 500), 0);
  EXPECT_EQ(program.burst(10, 500), 9);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(program.burst(1 + i % 2, 500), i % 2);
  for (int i = 0; i < 100; ++i) program.burst(i % 16 == 0 ? 1 : 2, 500);
  EXPECT_EQ(program.burst(2, 500), 2) << "one alone in sixteen does not matter";
}

// The receiver of an answer waits for it while the others are made ready.
TEST(Coalescing, AnAnswerLeavesBeforeWhatFollows) {
  Program program;
  program.blocking = true;
  for (int i = 0; i < 100; ++i) program.burst(10, 500);
  EXPECT_EQ(program.burst(10, 500), 9);
  program.blocking = false;
  EXPECT_EQ(program.burst(10, 500), 10);
}

// A poll that is a little late now and then, by the scheduler, does not keep the debt of a long one up.
TEST(Coalescing, SmallDelaysDoNotKeepALongOneUp) {
  Program program;
  for (int i = 0; i < 100; ++i) program.burst(2, 500);
  program.burst(2, 8'000'000);
  EXPECT_EQ(program.burst(2, 500), 0);
  for (int i = 0; i < 6000; ++i) program.burst(2, i % 500 == 0 ? 50'000 : 500);
  EXPECT_EQ(program.burst(2, 500), 2);
}

// A burst of 64 messages in segments of their own takes 256 us: a program that was interrupted once for 5 ms must not
// go on so for seconds.
TEST(Coalescing, LongBurstsPayForWhatTheyHaveSaved) {
  Program program;
  for (int i = 0; i < 100; ++i) program.burst(64, 500);
  program.burst(64, 5'000'000);
  for (int i = 0; i < 39; ++i) EXPECT_EQ(program.burst(64, 500), 0);
  program.burst(64, 500);
  EXPECT_EQ(program.burst(64, 500), 64);
}

// A sender that does not block need not poll for thousands of messages; all the while it shows that others follow.
TEST(Coalescing, AStreamPaysThoughItNeverPolls) {
  Program program;
  for (int i = 0; i < 10; ++i) program.burst(10, 500);
  program.burst(10, 10'000'000);
  EXPECT_EQ(program.burst(5000, 0), 0) << "a debt of 10 ms, 2 us for each message";
  const int waited = program.burst(10'000, 10'000'000);
  EXPECT_GE(waited, 9000);
  EXPECT_EQ(program.burst(4990, 0), 0) << "that its end is late is a debt again";
}

TEST(Coalescing, TheTimeOfTheKernelIsNoDelay) {
  Program program;
  for (int i = 0; i < 20; ++i) program.burst(10, 500, 30'000);
  EXPECT_GE(program.burst(10, 500, 30'000), 9);
}

TEST(Coalescing, WhatHasWaitedForLongLeaves) {
  Program program;
  for (int i = 0; i < 16; ++i) program.burst(10, 500);
  int longest = 0, waiting = 0;
  for (int i = 0; i < 1000; ++i) {
    waiting = program.coalescing.may_wait(program.now_ns, program.polls, false) ? waiting + 1 : 0;
    longest = std::max(longest, waiting);
    program.now_ns += 200;
  }
  EXPECT_LE(longest * 200, 20'000) << "nanoseconds";
  EXPECT_GE(longest, 50);
}

TEST(Coalescing, AProgramThatComputesAfterItsBurstsIsDelayedAFewTimesOnly) {
  Program program;
  int delayed = 0;
  for (int i = 0; i < 100'000; ++i) delayed += program.burst(10, i % 40 == 39 ? 1'000'000 : 500) != 0 && i % 40 == 39;
  EXPECT_GE(delayed, 1);
  EXPECT_LE(delayed, 3) << "40 bursts between two that compute: too few to pay for the third time";
}

TEST(Coalescing, OneDelayInManyBurstsIsForgiven) {
  Program program;
  int waited = 0;
  for (int i = 0; i < 100'000; ++i) waited += program.burst(10, i % 5000 == 4999 ? 1'000'000 : 500) != 0;
  EXPECT_GE(waited, 80'000);
}

// The kernel sends what waits, though the sender never calls the library again.
TEST(Coalescing, AMessageThatWaitsLeavesByItself) {
  TcpWorld world(2);
  const wire::Header header{.kind = wire::Kind::eager};
  const uint64_t word = 7;
  TestSend first(1, 0, "begins the connection");
  world.path(0).enqueue(first.over(world.path(0)));
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  size_t sent = 1;
  for (int burst = 0; burst < 40; ++burst) {
    for (int i = 0; i < 10; ++i) sent += world.path(0).try_send(world.path(0).lane(1), header, &word, sizeof word);
    if (burst == 39) break;
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == sent; }));
  }
  EXPECT_EQ(sent, 401u);
  const uint64_t begin = world.clock.now_ns();
  while (world[1].sink.arrivals.size() < sent && world.clock.now_ns() - begin < 5'000'000'000) world.path(1).poll();
  EXPECT_EQ(world[1].sink.arrivals.size(), sent);
}

/// Rank 0 sends bursts of small messages, numbered; some of them as operations of 4 to 12 KiB.
struct Bursts {
  std::deque<TestSend> operations;  // outlives the paths, which may still have some
  TcpWorld world{2};
  Rng rng{1};
  wire::Header header{.kind = wire::Kind::eager};
  size_t sent = 0;

  Bursts() { send_operation(8); }
  void send_operation(size_t bytes) {
    header.tag = int32_t(sent++);
    operations.emplace_back(1, header.tag, std::string(bytes, char(header.tag)));
    operations.back().header = header;
    world.path(0).enqueue(operations.back().over(world.path(0)));
  }
  void send(size_t bytes) {
    header.tag = int32_t(sent);
    if (const std::string content(bytes, char(sent));
        world.path(0).try_send(world.path(0).lane(1), header, content.data(), bytes))
      ++sent;
    else send_operation(bytes);
  }
  const std::vector<Arrival>& arrivals() { return world[1].sink.arrivals; }
  bool all_arrive() {
    return world.until([&] { return arrivals().size() >= sent; });
  }
  void burst(bool mixed) {
    world.path(0).poll();
    for (int i = 0; i < 8; ++i) {
      if (mixed && rng.next() % 4 == 0) send_operation(4096 + rng.next() % 8192);
      else send(rng.next() % 512);
    }
  }
  /// Bursts that rank 0 polls after at once, so they are trusted; then one after which it does not. Whether that has
  /// not left.
  bool one_is_held(bool mixed) {
    if (!all_arrive()) return false;
    for (int i = 0; i < 20; ++i) {
      burst(mixed);
      world.path(0).poll();
      if (!all_arrive()) return false;
    }
    burst(mixed);
    for (int i = 0; i < 200 && arrivals().size() < sent; ++i) world.path(1).poll();
    return arrivals().size() < sent;
  }
  void check() {
    ASSERT_EQ(arrivals().size(), sent);
    for (size_t i = 0; i < sent; ++i) {
      ASSERT_EQ(arrivals()[i].header.tag, int32_t(i));
      ASSERT_EQ(arrivals()[i].bytes, std::string(arrivals()[i].bytes.size(), char(i)));
    }
    ASSERT_TRUE(world.until([&] {
      return !world.path(0).has_unsent() &&
             std::all_of(operations.begin(), operations.end(), [](auto& o) { return o.completions == 1; });
    }));
  }
};

/// With a burst that is held. A rank that was preempted meanwhile is trusted no more for long: then another connection
/// begins anew.
template <typename Setup>
std::unique_ptr<Bursts> held_burst(bool mixed, Setup&& setup) {
  RealClock clock;
  const uint64_t begin = clock.now_ns();
  while (clock.now_ns() - begin < uint64_t(20e9 * kPatience)) {
    auto bursts = std::make_unique<Bursts>();
    setup(*bursts);
    if (bursts->one_is_held(mixed)) return bursts;
  }
  return nullptr;
}
std::unique_ptr<Bursts> held_requests(bool mixed = false) {
  return held_burst(mixed, [](Bursts& bursts) { bursts.header.flags = wire::kRequested; });
}

// Who has a request for it comes back: then it leaves. Until then nobody hands it to the kernel.
TEST(Coalescing, WhatIsRequestedWaitsInTheRank) {
  const auto held = held_requests();
  ASSERT_TRUE(held);
  Bursts& bursts = *held;
  const size_t here = bursts.arrivals().size();
  const uint64_t begin = bursts.world.clock.now_ns();
  while (bursts.world.clock.now_ns() - begin < 400'000'000) bursts.world.path(1).poll();
  EXPECT_EQ(bursts.arrivals().size(), here);
  EXPECT_TRUE(bursts.world.path(0).has_unsent());
  EXPECT_EQ(bursts.world.path(0).unsent_hint(), Need::now);
  EXPECT_TRUE(bursts.all_arrive());
  bursts.check();
}

TEST(Coalescing, WithAHelpingThreadEverythingMayWaitInTheRank) {
  const auto held = held_burst(true, [](Bursts& bursts) { bursts.world.path(0).set_helped(true); });
  ASSERT_TRUE(held);
  Bursts& bursts = *held;
  EXPECT_EQ(bursts.world.path(0).unsent_hint(), Need::now);
  EXPECT_TRUE(bursts.all_arrive());
  bursts.check();
}

// An operation that has waited leaves with the next message, and is looked after from then on.
TEST(Coalescing, AnOperationThatLeavesWithTheNextMessageCompletes) {
  Bursts bursts;
  bursts.world.path(0).set_helped(true);
  ASSERT_TRUE(bursts.all_arrive());
  for (int round = 0; round < 200; ++round) {
    bursts.burst(false);
    bursts.send_operation(8192);
    const TestSend& waited = bursts.operations.back();
    bursts.send(8192);
    bursts.world.path(0).poll();
    for (int i = 0; i < 1'000'000 && bursts.arrivals().size() < bursts.sent; ++i) bursts.world.path(1).poll();
    ASSERT_EQ(bursts.arrivals().size(), bursts.sent);
    for (int i = 0; i < 2; ++i) bursts.world.path(0).poll();
    ASSERT_EQ(waited.completions, 1) << round;
  }
  bursts.check();
}

TEST(Coalescing, WhatWaitsInTheRankSurvivesItsConnection) {
  for (int round = 0; round < 6; ++round) {
    const auto held = held_requests(true);  // the one before is trusted no more
    ASSERT_TRUE(held);
    Bursts& bursts = *held;
    bursts.world.path(0).break_connection(1);
    if (round % 2 == 0) bursts.send(100);
    ASSERT_TRUE(bursts.all_arrive());
    bursts.check();
  }
}

// A rank that is about to sleep, or whose paths are armed for its thread, keeps nothing.
TEST(Coalescing, NothingWaitsInARankThatIsArmed) {
  const auto held = held_requests();
  ASSERT_TRUE(held);
  Bursts& bursts = *held;
  ASSERT_TRUE(bursts.all_arrive());
  ASSERT_TRUE(bursts.world.path(0).arm());
  for (int i = 0; i < 8; ++i) bursts.send(8);
  const uint64_t begin = bursts.world.clock.now_ns();
  while (bursts.arrivals().size() < bursts.sent && bursts.world.clock.now_ns() - begin < 5'000'000'000)
    bursts.world.path(1).poll();
  EXPECT_EQ(bursts.arrivals().size(), bursts.sent);
  bursts.world.path(0).disarm();
  bursts.check();
}

}  // namespace
}  // namespace tern
