// When small messages wait for one another (fabric/ip/coalescing.h), and that they arrive all the same.
#include "fabric/ip/coalescing.h"

#include <gtest/gtest.h>

#include "tcp_fixture.h"

namespace tern {
namespace {

/// A program that sends bursts and then computes, or not.
struct Program {
  Coalescing coalescing;
  uint64_t now_ns = 1'000'000, polls = 0;

  /// Sends `messages`, then polls after `pause_ns`. How many of them were allowed to wait.
  int burst(int messages, uint64_t pause_ns) {
    int waited = 0;
    for (int i = 0; i < messages; ++i) {
      waited += coalescing.may_wait(now_ns, polls);
      now_ns += 200;
    }
    now_ns += pause_ns;
    if (coalescing.open()) coalescing.end(now_ns);
    ++polls;
    now_ns += 100'000;
    return waited;
  }
};

TEST(Coalescing, messages_wait_when_polls_have_followed_soon) {
  Program program;
  for (int i = 0; i < 16; ++i) EXPECT_EQ(program.burst(10, 500), 0) << "nothing is known of this program yet";
  EXPECT_EQ(program.burst(10, 500), 9) << "the first of a burst never waits";
  EXPECT_EQ(program.burst(1, 500), 0);
}

TEST(Coalescing, what_has_waited_for_long_leaves) {
  Program program;
  for (int i = 0; i < 16; ++i) program.burst(10, 500);
  int longest = 0, waiting = 0;
  for (int i = 0; i < 1000; ++i) {
    waiting = program.coalescing.may_wait(program.now_ns, program.polls) ? waiting + 1 : 0;
    longest = std::max(longest, waiting);
    program.now_ns += 200;
  }
  EXPECT_LE(longest * 200, 20'000) << "nanoseconds";
  EXPECT_GE(longest, 50);
}

TEST(Coalescing, a_program_that_computes_after_its_bursts_is_delayed_a_few_times_only) {
  Program program;
  int delayed = 0;
  for (int i = 0; i < 100'000; ++i) delayed += program.burst(10, i % 40 == 39 ? 1'000'000 : 500) != 0 && i % 40 == 39;
  EXPECT_GE(delayed, 1);
  EXPECT_LE(delayed, 3) << "40 bursts between two that compute: too few to earn trust the third time";
}

TEST(Coalescing, one_delay_in_many_bursts_is_forgiven) {
  Program program;
  int waited = 0;
  for (int i = 0; i < 100'000; ++i) waited += program.burst(10, i % 5000 == 4999 ? 1'000'000 : 500) != 0;
  EXPECT_GE(waited, 80'000);
}

// The kernel sends what waits, though the sender never calls the library again.
TEST(Coalescing, a_message_that_waits_leaves_by_itself) {
  TcpWorld world(2);
  const wire::Header header{.kind = wire::Kind::eager};
  const uint64_t word = 7;
  TestSend first(1, 0, "begins the connection");
  world.path(0).enqueue(first);
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  size_t sent = 1;
  for (int burst = 0; burst < 40; ++burst) {
    for (int i = 0; i < 10; ++i) sent += world.path(0).try_send(1, header, &word, sizeof word);
    if (burst == 39) break;
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == sent; }));
  }
  EXPECT_EQ(sent, 401u);
  const uint64_t begin = world.clock.now_ns();
  while (world[1].sink.arrivals.size() < sent && world.clock.now_ns() - begin < 5'000'000'000) world.path(1).poll();
  EXPECT_EQ(world[1].sink.arrivals.size(), sent);
}

}  // namespace
}  // namespace tern
