// The TCP path among ranks of one process: order, content, completions, partial writes, simultaneous calls,
// many peers.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "datatype/construct.h"
#include "datatype/predefined.h"
#include "progress/engine.h"
#include "progress/kernel_wait.h"
#include "tcp_fixture.h"

namespace tern {
namespace {

TEST(TcpPath, SmallMessagesArriveInOrderBothWays) {
  TcpWorld world(2);
  for (int i = 0; i < 1000; ++i) {
    world.send(0, 1, i, pattern(i % 97, i));
    world.send(1, 0, i, pattern(i % 89, i + 5000));
    if (i % 7 == 0) world.poll();
  }
  ASSERT_TRUE(
      world.until([&] { return world[0].sink.arrivals.size() == 1000 && world[1].sink.arrivals.size() == 1000; }));
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(world[1].sink.arrivals[i].header.tag, i);
    EXPECT_EQ(world[1].sink.arrivals[i].bytes, pattern(i % 97, i));
    EXPECT_EQ(world[0].sink.arrivals[i].header.tag, i);
    EXPECT_EQ(world[0].sink.arrivals[i].bytes, pattern(i % 89, i + 5000));
  }
  ASSERT_TRUE(world.until([&] {
    return std::all_of(world.sends.begin(), world.sends.end(), [](auto& s) { return s->completions == 1; });
  }));
  for (auto& send : world.sends) EXPECT_EQ(send->error, "");
  EXPECT_EQ(world.path(0).connections(), 1u);
  EXPECT_EQ(world[0].lookups + world[1].lookups, 2);  // both called first, each asked once
  EXPECT_TRUE(
      world.until([&] { return !world.path(0).has_unsent(); }));  // the peer's kernel acknowledges when it has time
}

TEST(TcpPath, SizesAroundEveryBoundary) {
  TcpWorld world(2);
  std::vector<size_t> sizes = {0,     1,     31,    32,    33,    2047,  2048,    2049,         16351,
                               16352, 16353, 16384, 65535, 65536, 65537, 1 << 20, (5 << 20) + 3};
  int tag = 0;
  for (size_t size : sizes) world.send(0, 1, tag++, pattern(size, size));
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == sizes.size(); }));
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(world[1].sink.arrivals[i].header.tag, int(i));
    EXPECT_TRUE(world[1].sink.arrivals[i].bytes == pattern(sizes[i], sizes[i])) << sizes[i];
  }
}

// For a thread that has the path alone: what else has come stays where it is, in order.
TEST(TcpPath, ShortPollsTakeWhatComesOverConnectionsInUse) {
  TcpWorld world(2);
  auto& arrivals = world[1].sink.arrivals;
  EXPECT_FALSE(world.path(0).may_send_shortly(world.path(0).lane(1), 8)) << "there is no connection yet";
  EXPECT_EQ(world.path(1).poll_shortly(), -1) << "nor any to look at";
  world.send(0, 1, 0, "first");
  ASSERT_TRUE(world.until([&] { return arrivals.size() == 1; }));
  EXPECT_TRUE(world.path(0).may_send_shortly(world.path(0).lane(1), 8));

  const auto poll_shortly = [&](size_t wanted) {
    const uint64_t end = world.clock.now_ns() + uint64_t(kPatience * 1e10);
    int last = 0;
    while (arrivals.size() < wanted && last >= 0 && world.clock.now_ns() < end) last = world.path(1).poll_shortly();
    return last;
  };
  // Long enough to come in parts, too.
  world.send(0, 1, 1, "second");
  world.send(0, 1, 2, pattern(100'000, 3));
  std::atomic<bool> over{false};
  std::thread sender([&] {
    while (!over) world.path(0).poll();
  });
  EXPECT_GE(poll_shortly(3), 0);
  over = true;
  sender.join();
  ASSERT_EQ(arrivals.size(), 3u);
  EXPECT_TRUE(arrivals[2].bytes == pattern(100'000, 3));
  EXPECT_EQ(world.path(1).poll_shortly(), 0);
}

// The end of a connection, too.
TEST(TcpPath, ShortPollsLeaveTheEndOfAConnection) {
  TcpWorld world(2);
  world.send(0, 1, 0, "first");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  world.cards[0] = world.path(0).card();
  world[0].path->abort();
  world[0].path.reset();
  const uint64_t end = world.clock.now_ns() + uint64_t(kPatience * 1e10);
  while (world.path(1).poll_shortly() >= 0 && world.clock.now_ns() < end) {
  }
  EXPECT_EQ(world.path(1).poll_shortly(), -1);
  EXPECT_EQ(world.path(1).unsent_hint(), Need::now);
  EXPECT_FALSE(world.path(1).arm());
  EXPECT_TRUE(world[1].sink.lost.empty());
  ASSERT_TRUE(world.until([&] { return world[1].sink.lost.count(0) == 1; }));
}

// What each pair of ranks has sent each other, and the check that exactly that arrived, in order.
class Ledger {
 public:
  void send(TcpWorld& world, PeerId from, PeerId to, std::string bytes) {
    auto& stream = streams_[{from, to}];
    world.send(from, to, int32_t(stream.size()), bytes);
    stream.push_back(std::move(bytes));
    ++total_;
  }
  bool arrived(TcpWorld& world) const {
    size_t count = 0;
    for (auto& rank : world.ranks) count += rank->sink.arrivals.size();
    return count == total_;
  }
  void check(TcpWorld& world) const {
    for (PeerId to = 0; to < world.ranks.size(); ++to) {
      std::map<PeerId, size_t> next;
      for (const Arrival& arrival : world[to].sink.arrivals) {
        size_t i = next[arrival.peer]++;
        const auto& stream = streams_.at({arrival.peer, to});
        ASSERT_LT(i, stream.size());
        ASSERT_EQ(arrival.header.tag, int32_t(i)) << "from " << arrival.peer << " to " << to;
        ASSERT_TRUE(arrival.bytes == stream[i])
            << "content, from " << arrival.peer << " to " << to << ", message " << i;
      }
    }
    for (auto& send : world.sends) {
      ASSERT_EQ(send->completions, 1);
      ASSERT_EQ(send->error, "");
    }
  }

 private:
  std::map<std::pair<PeerId, PeerId>, std::vector<std::string>> streams_;
  size_t total_ = 0;
};

bool all_complete(TcpWorld& world) {
  return std::all_of(world.sends.begin(), world.sends.end(), [](auto& send) { return send->completions != 0; });
}

// Tiny kernel buffers: every message is cut into pieces at random places, on both sides.
TEST(TcpPath, RandomTrafficThroughTinySocketBuffers) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    constexpr uint32_t kRanks = 3;
    TcpWorld world(kRanks,
                   [&](TcpOptions& options, Tunables&) { options.send_buffer_bytes = seed % 2 ? 2048 : 20000; });
    Rng rng(seed);
    Ledger ledger;
    for (int i = 0; i < 300; ++i) {
      PeerId from = PeerId(rng.below(kRanks)), to = PeerId((from + 1 + rng.below(kRanks - 1)) % kRanks);
      size_t bytes = size_t(rng.below(4) == 0 ? rng.below(200'000) : rng.below(3000));
      ledger.send(world, from, to, pattern(bytes, rng.next()));
      if (rng.chance(1, 3)) world.poll();
    }
    ASSERT_TRUE(world.until([&] { return ledger.arrived(world) && all_complete(world); }));
    ledger.check(world);
  }
}

// Everyone calls everyone at the same moment: of two connections one survives, and no message is lost or
// doubled.
TEST(TcpPath, SimultaneousCallsLeaveOneConnection) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    constexpr uint32_t kRanks = 4;
    TcpWorld world(kRanks);
    Rng rng(seed);
    Ledger ledger;
    for (PeerId from = 0; from < kRanks; ++from) {
      for (PeerId to = 0; to < kRanks; ++to) {
        if (from == to) continue;
        for (int i = 0; i < 3; ++i) ledger.send(world, from, to, pattern(100 * i + from, seed * 100 + to));
      }
    }
    // Polls in random order: the handshakes cross at every stage.
    for (int i = 0; i < 2000; ++i) world.path(PeerId(rng.below(kRanks))).poll();
    ASSERT_TRUE(world.until([&] { return ledger.arrived(world) && all_complete(world); }));
    ledger.check(world);
    for (PeerId id = 0; id < kRanks; ++id) {
      EXPECT_EQ(world.path(id).connections(), kRanks - 1);
      EXPECT_TRUE(world[id].sink.lost.empty());
    }
    ASSERT_TRUE(world.until([&] {
      size_t unproven = 0;
      for (PeerId id = 0; id < kRanks; ++id) unproven += world.path(id).unproven();
      return unproven == 0;
    }));
  }
}

TEST(TcpPath, ManyPeers) {
  constexpr uint32_t kRanks = 64;
  TcpWorld world(kRanks);
  Ledger ledger;
  Rng rng(64);
  for (PeerId from = 0; from < kRanks; ++from) {
    for (PeerId to = 0; to < kRanks; ++to) {
      if (from != to) ledger.send(world, from, to, pattern(size_t(rng.below(5000)), rng.next()));
    }
  }
  ASSERT_TRUE(world.until([&] { return ledger.arrived(world) && all_complete(world); }, 60));
  ledger.check(world);
  for (PeerId id = 0; id < kRanks; ++id) EXPECT_EQ(world.path(id).connections(), kRanks - 1);
}

// Scattered data on either side, in pieces too small for the kernel's gather and in large ones.
TEST(TcpPath, ScatteredData) {
  PredefinedTypes types;
  for (Count block : {Count(1), Count(3), Count(700)}) {
    SCOPED_TRACE(block);
    TcpWorld world(2, [](TcpOptions& options, Tunables&) { options.send_buffer_bytes = 10'000; });
    Ref<Datatype> vector;
    ASSERT_FALSE(construct::vector(2, block, block + 1, types.get(type_id::kFloat), vector));
    vector->commit();
    const Count count = 400'000 / (block * 4);
    std::string memory = pattern(size_t(vector->extent() * count) + 64, 3);
    Cursor reference(memory.data(), count, *vector);
    std::string packed(reference.remaining(), 0);
    reference.pack(reinterpret_cast<std::byte*>(packed.data()), packed.size());

    TestSend send(1, 5, "");
    send.payload = Cursor(memory.data(), count, *vector);
    std::string received(memory.size(), 0);
    world[1].sink.make_target = [&](std::string&, size_t) { return Cursor(received.data(), count, *vector); };
    world.path(0).enqueue(send.over(world.path(0)));
    ASSERT_TRUE(world.until([&] { return send.completions == 1 && !world[1].sink.arrivals.empty(); }));
    Cursor got(received.data(), count, *vector);
    std::string repacked(got.remaining(), 0);
    got.pack(reinterpret_cast<std::byte*>(repacked.data()), repacked.size());
    EXPECT_TRUE(repacked == packed);
  }
}

TEST(TcpPath, WhatTheLandingHasNoRoomForIsThrownAway) {
  TcpWorld world(2);
  world[1].sink.landing_limit = 1000;
  Ledger ledger;
  world.send(0, 1, 0, pattern(300'000, 1));
  world.send(0, 1, 1, "after");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 2; }));
  EXPECT_TRUE(world[1].sink.arrivals[0].bytes == pattern(300'000, 1).substr(0, 1000));
  EXPECT_EQ(world[1].sink.arrivals[1].bytes, "after");
}

TEST(TcpPath, AnOperationIsWithdrawnOnlyBeforeItLeaves) {
  TcpWorld world(2, [](TcpOptions& options, Tunables&) { options.send_buffer_bytes = 4096; });
  TestSend first(1, 1, pattern(1 << 20, 1)), second(1, 2, "second"), third(1, 3, "third");
  world.path(0).enqueue(first.over(world.path(0)));
  ASSERT_TRUE(world.until([&] { return world.path(0).connections() == 1 && first.header_sent; }));
  world.path(0).enqueue(second.over(world.path(0)));
  world.path(0).enqueue(third.over(world.path(0)));
  EXPECT_FALSE(world.path(0).withdraw(first));
  EXPECT_TRUE(world.path(0).withdraw(second));
  ASSERT_TRUE(world.until([&] { return third.completions == 1 && world[1].sink.arrivals.size() == 2; }));
  EXPECT_EQ(second.completions, 0);
  EXPECT_EQ(world[1].sink.arrivals[1].header.tag, 3);
  EXPECT_FALSE(world.path(0).withdraw(third));
}

// A sink that answers from within poll, as rendezvous does.
TEST(TcpPath, TheSinkMaySendWhileItIsCalled) {
  TcpWorld world(2);
  int rounds = 0;
  for (PeerId id : {0u, 1u}) {
    world[id].sink.on_arrival = [&, id](const Arrival& arrival) {
      if (++rounds < 500) world.send(id, 1 - id, arrival.header.tag + 1, pattern(size_t(arrival.header.tag) * 211, 9));
    };
  }
  world.send(0, 1, 0, "");
  ASSERT_TRUE(world.until([&] { return rounds >= 500; }));
}

// A rank that leaves for long waits until nothing is unsent. Acknowledgements wake nobody, so it must ask again before
// it sleeps.
TEST(TcpPath, WhoAskedForWhatIsUnsentDoesNotSleepThroughTheAnswer) {
  TcpWorld world(2);
  world.send(0, 1, 0, "hello");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  auto unacknowledged = [&] {
    world.send(0, 1, 1, "more");
    return world.path(0).has_unsent();
  };
  ASSERT_TRUE(world.until(unacknowledged));
  Tunables tunables;
  tunables.spin_us = 0;
  Driving driving;
  KernelWait port;
  ProgressEngine engine(world.clock, driving, port, WaitPolicy::Setup::of(tunables, false));
  engine.add(world.path(0));
  int asked = 0;
  engine.wait_until([&] {
    if (++asked == 1) {
      usleep(400'000);  // more than the peer's kernel puts an acknowledgement off
      return false;
    }
    return !world.path(0).has_unsent();
  });
  EXPECT_EQ(engine.counters().sleeps, 0u);
}

// A rank that computes need not be woken for what has left, only for what has not.
TEST(TcpPath, WhatIsOnlyUnacknowledgedCanBeLookedAtLater) {
  TcpWorld world(2, [](TcpOptions& options, Tunables&) { options.send_buffer_bytes = 4096; });
  world.send(0, 1, 0, "hello");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  ASSERT_TRUE(world.until([&] { return !world.path(0).has_unsent(); }));
  ASSERT_TRUE(world.path(0).arm());  // has looked closely
  world.path(0).disarm();
  EXPECT_EQ(world.path(0).unsent_hint(), Need::nothing);
  world.send(0, 1, 1, "more");
  EXPECT_EQ(world.path(0).unsent_hint(), Need::later);
  TestSend large(1, 2, pattern(1 << 20, 2));
  world.path(0).enqueue(large.over(world.path(0)));
  EXPECT_EQ(world.path(0).unsent_hint(), Need::now);
  ASSERT_TRUE(world.until([&] { return large.completions == 1; }));
  EXPECT_EQ(world.path(0).unsent_hint(), Need::later);
}

// An operation whose end is little enough to be copied is over with the next poll, whatever of what was sent before it
// is not acknowledged: that is a copy already.
TEST(TcpPath, WhatCanBeCopiedDoesNotWaitForWhatWasBeforeIt) {
  TcpWorld world(2);
  // Past its first packets a kernel puts acknowledgements off.
  for (int i = 0; i < 50; ++i) {
    world.send(i % 2, 1 - i % 2, i, "hello");
    ASSERT_TRUE(
        world.until([&] { return world[0].sink.arrivals.size() + world[1].sink.arrivals.size() == size_t(i + 1); }));
  }
  for (int i = 0; i < 10; ++i) {
    const size_t before = world[1].sink.arrivals.size();
    world.send(0, 1, 100, "before");
    TestSend tail(1, 101, pattern(64 * 1024, 1));
    world.path(0).enqueue(tail.over(world.path(0)));
    for (int poll = 0; poll < 2; ++poll) world.path(0).poll();  // nobody reads
    EXPECT_EQ(tail.completions, 1) << i;
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == before + 2 && tail.completions == 1; }));
    EXPECT_EQ(world[1].sink.arrivals.back().bytes, pattern(64 * 1024, 1));
    world.send(1, 0, 102, "read");
    ASSERT_TRUE(world.until(
        [&] { return !world[0].sink.arrivals.empty() && world[0].sink.arrivals.back().header.tag == 102; }));
    world[0].sink.arrivals.clear();
  }
}

// Copies of operations that a small message follows have memory of their own. When that is full the kernel is asked
// what has arrived: no operation waits for the look of a rank that goes to sleep (10 ms later).
TEST(TcpPath, CopiesBetweenSmallMessagesDoNotFillTheirMemory) {
  TcpWorld world(2);
  for (int i = 0; i < 400; ++i) {
    world.send(0, 1, i, "before");
    TestSend between(1, i, pattern(8192, uint64_t(i)));
    world.path(0).enqueue(between.over(world.path(0)));
    world.send(0, 1, i, "behind");
    ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 3; }));
    EXPECT_EQ(world[1].sink.arrivals[1].bytes, pattern(8192, uint64_t(i)));
    for (int poll = 0; poll < 2; ++poll) world.path(0).poll();
    ASSERT_EQ(between.completions, 1) << i;
    world[1].sink.arrivals.clear();
  }
}

// While the rest of a message is on its way a sleep is not worth it, unless it stays out, or comes in small pieces, as
// from a slow network.
TEST(TcpPath, AMessageThatIsArrivingIsAwaitedAwakeForAMoment) {
  TcpWorld world(2, [](TcpOptions& options, Tunables&) { options.send_buffer_bytes = 64 * 1024; });
  world.send(0, 1, 0, "hello");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  EXPECT_FALSE(world.path(1).arriving());
  TestSend large(1, 1, pattern(8 << 20, 1));
  world.path(0).enqueue(large.over(world.path(0)));
  bool arrived = false;
  ASSERT_TRUE(world.until([&] {
    const bool goes_on = world.path(1).arriving();  // asked just after world.poll
    arrived = arrived || goes_on;
    if (goes_on) {
      usleep(1000);
      EXPECT_FALSE(world.path(1).arriving());
    }
    return world[1].sink.arrivals.size() == 2;
  }));
  EXPECT_TRUE(arrived);
  EXPECT_FALSE(world.path(1).arriving());
}

TEST(TcpPath, AMessageThatComesInSmallPiecesIsNotAwaitedAwake) {
  TcpWorld world(2, [](TcpOptions& options, Tunables&) { options.send_buffer_bytes = 4096; });
  world.send(0, 1, 0, "hello");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  TestSend large(1, 1, pattern(1 << 20, 1));
  world.path(0).enqueue(large.over(world.path(0)));
  int awaited = 0, pieces = 0;
  uint64_t asked_ns = world.clock.now_ns();
  ASSERT_TRUE(world.until([&] {
    ++pieces;
    awaited += world.path(1).arriving();
    while (world.clock.now_ns() < asked_ns + 20'000) {
    }
    asked_ns = world.clock.now_ns();
    return world[1].sink.arrivals.size() == 2;
  }));
  EXPECT_GT(pieces, 100);
  EXPECT_LT(awaited, pieces / 2);
}

TEST(TcpPath, BytesThatLeaveAreProgress) {
  TcpWorld world(2, [](TcpOptions& options, Tunables&) { options.send_buffer_bytes = 4096; });
  world.send(0, 1, 0, "hello");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  TestSend large(1, 1, pattern(8 << 20, 1));
  world.path(0).enqueue(large.over(world.path(0)));
  for (int i = 0; i < 5; ++i) {
    while (world.path(0).poll() != 0) {
    }
    ASSERT_EQ(large.completions, 0);
    world.path(1).poll();
    auto progress = [&] { return world.path(0).poll() != 0; };
    uint64_t end = world.clock.now_ns() + 2'000'000'000;
    bool moved = false;
    while (!moved && world.clock.now_ns() < end) moved = progress();
    EXPECT_TRUE(moved);
  }
  ASSERT_TRUE(world.until([&] { return large.completions == 1; }));
}

TEST(TcpPath, WakesASleeper) {
  TcpWorld world(2, [](TcpOptions& options, Tunables&) { options.send_buffer_bytes = 4096; });
  world.send(0, 1, 0, "hello");
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 1; }));
  auto readable = [&](PeerId id) {
    pollfd wait{world.path(id).wait_fd(), POLLIN, 0};
    return ::poll(&wait, 1, 2000) == 1;
  };
  auto quiet = [&](PeerId id) {
    pollfd wait{world.path(id).wait_fd(), POLLIN, 0};
    return ::poll(&wait, 1, 20) == 0;
  };
  for (int i = 0; i < 20; ++i) world.poll();
  ASSERT_TRUE(world.path(1).arm());
  EXPECT_TRUE(quiet(1));
  world.send(0, 1, 1, "wake up");
  EXPECT_TRUE(readable(1));
  world.path(1).disarm();
  // A sender whose socket is full sleeps until there is room.
  TestSend large(1, 2, pattern(1 << 20, 2));
  world.path(0).enqueue(large.over(world.path(0)));
  // The kernels go on for a moment: what the receiver's takes late makes room once more.
  bool asleep = false;
  for (int i = 0; i < 50 && !asleep; ++i) {
    while (world.path(0).poll() != 0) {
    }
    if (!world.path(0).arm()) continue;
    asleep = quiet(0);
    if (!asleep) world.path(0).disarm();
  }
  EXPECT_TRUE(asleep);
  for (int i = 0; i < 10; ++i) world.path(1).poll();
  EXPECT_TRUE(readable(0));
  world.path(0).disarm();
  ASSERT_TRUE(world.until([&] { return large.completions == 1; }));
  // An operation that left at once is complete only in poll: no sleep before that.
  ASSERT_TRUE(world.until([&] { return world[1].sink.arrivals.size() == 3; }));
  TestSend small(1, 3, "x");
  world.path(0).enqueue(small.over(world.path(0)));
  EXPECT_EQ(small.completions, 0);
  EXPECT_FALSE(world.path(0).arm());
  world.path(0).poll();
  EXPECT_EQ(small.completions, 1);
}

}  // namespace
}  // namespace tern
