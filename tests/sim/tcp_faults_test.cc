// What single faults of hosts and networks do to the TCP path, at any moment (the seed's): networks that fail and come
// back, ranks that die, calls that nobody takes, floods of strangers.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "p2p/point_to_point.h"
#include "sim/stream_hosts.h"
#include "sim/world.h"
#include "tests/sim/lost_rank.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs;
constexpr uint64_t kContext = uint64_t{1} << 2;

WorldOptions tcp_world(uint64_t seed, uint32_t ranks) {
  WorldOptions options;
  options.tcp = true;
  options.seed = seed;
  options.ranks = ranks;
  options.limits.events = 50'000'000;
  options.limits.virtual_ns = 3600 * kSecond;
  return options;
}

void expect_none(const Error& error) { EXPECT_FALSE(error) << error.text(); }

/// Messages between ranks 0 and 1, there and back, each checked; with the longest time that one took.
class PingPong {
 public:
  PingPong(Process& process, size_t bytes) : process_(process), out_(bytes), in_(bytes) {}
  void once(int number) {
    const int me = process_.world_rank();
    const uint64_t begin_ns = process_.clock().now_ns();
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == me) {
        for (size_t i = 0; i < out_.size(); ++i) out_[i] = std::byte(i * 31 + size_t(number) * 7 + size_t(me));
        expect_none(process_.p2p().send({out_.data(), Count(out_.size()), &types_.get(type_id::kByte), PeerId(1 - me),
                                         me, number, kContext, SendMode::standard}));
      } else {
        Status status;
        EXPECT_FALSE(process_.p2p().receive(
            {in_.data(), Count(in_.size()), &types_.get(type_id::kByte), PeerId(1 - me), 1 - me, number, kContext},
            status));
        size_t wrong = 0;
        for (size_t i = 0; i < in_.size(); ++i)
          wrong += in_[i] != std::byte(i * 31 + size_t(number) * 7 + size_t(1 - me));
        EXPECT_EQ(wrong, 0u) << "message " << number;
      }
    }
    longest_ns = std::max(longest_ns, process_.clock().now_ns() - begin_ns);
  }
  uint64_t longest_ns = 0;

 private:
  Process& process_;
  PredefinedTypes types_;
  std::vector<std::byte> out_, in_;
};

void quieten(Process& process) {
  process.p2p().progress().wait_until([&] { return process.p2p().quiet(); });
}

// One of two networks is cut for some seconds. Traffic goes on over the other within a second or two (at once where the
// cut is this node's own), and returns to the first when it works again.
TEST(TcpFaults, TrafficLeavesACutNetworkAndComesBack) {
  for_seeds(50, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = tcp_world(seed, 2);
    options.streams.networks = 2;
    options.tunables.tcp_lanes = int64_t(1 + rng.below(2));
    World world(options);
    StreamHosts& streams = world.machine().streams();
    const uint64_t cut_ns = kSecond + rng.below(kSecond), back_ns = cut_ns + 2 * kSecond + rng.below(2 * kSecond);
    streams.plan({cut_ns, uint32_t(rng.below(2)), 1, back_ns - cut_ns});
    const size_t bytes = size_t(1 + rng.below(uint64_t{1} << (4 + rng.below(15))));
    uint64_t home = 0, away = 0, home_again = 0;
    Report report = world.run([&](Process& process) {
      PingPong traffic(process, bytes);
      for (int i = 0; process.clock().now_ns() < back_ns + 6 * kSecond; ++i) {
        process.clock().charge_ns(5 * kMs);
        traffic.once(i);
        const uint64_t now = process.clock().now_ns();
        if (now < cut_ns) home = streams.totals().segments[1];
        if (now < back_ns) away = streams.totals().segments[2];
        if (now < back_ns + 4 * kSecond) home_again = streams.totals().segments[1];
        int over = now >= back_ns + 6 * kSecond;  // rank 0 says when it is over
        Status status;
        PredefinedTypes types;
        const Datatype& byte = types.get(type_id::kByte);
        if (process.world_rank() == 0) {
          EXPECT_FALSE(process.p2p().send({&over, 1, &byte, 1, 0, 1, kContext << 1, SendMode::standard}));
        } else {
          EXPECT_FALSE(process.p2p().receive({&over, 1, &byte, 0, 0, 1, kContext << 1}, status));
        }
        if (over != 0) break;
      }
      EXPECT_LT(traffic.longest_ns, 3 * kSecond);
      EXPECT_GE(process.counters().tcp_resumed, 2u);
      quieten(process);
    });
    EXPECT_TRUE(report.ok()) << report.failure << streams.describe();
    EXPECT_GT(home, 0u);
    EXPECT_GT(away, 0u);
    EXPECT_GT(streams.totals().segments[1], home_again) << "it did not come back";
  });
}

// With no other network the connection outlives a cut of some seconds.
TEST(TcpFaults, TheOnlyNetworkIsCutAndComesBack) {
  for_seeds(50, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = tcp_world(seed, 2);
    World world(options);
    for (int i = 0; i < 5; ++i) {
      world.machine().streams().plan({rng.below(20 * kSecond), uint32_t(rng.below(2)), 1, rng.below(8 * kSecond)});
    }
    Report report = world.run([&](Process& process) {
      PingPong traffic(process, 20'000);
      for (int i = 0; i < 400; ++i) {
        process.clock().charge_ns(50 * kMs);
        traffic.once(i);
      }
      quieten(process);
    });
    EXPECT_TRUE(report.ok()) << report.failure << world.machine().streams().describe();
  });
}

void lose_a_rank(uint64_t seed, bool dead_host) {
  Rng rng(seed);
  WorldOptions options = tcp_world(seed, 3);
  options.streams.networks = uint32_t(1 + rng.below(2));
  options.tunables.tcp_connect_timeout_s = 5;
  options.stream_faults.dead_hosts = dead_host;
  options.stream_faults.drop_in_1024 = uint32_t(rng.below(30));
  options.stream_faults.reset_in_65536 = uint32_t(rng.below(500));
  const uint64_t death_ns = 20 * kSecond + rng.below(300 * kMs);  // calls may have to be repeated for some seconds
  options.faults.losses.push_back({1, death_ns, 1});
  World world(options);
  Report report = world.run([&](Process& process) {
    const uint64_t took_ms = (live_through_a_death(process, "10.") - death_ns) / kMs;
    // Who only listens to a dead host asks it after a minute (kAskSeldom), and then calls.
    EXPECT_LT(took_ms, dead_host ? 180'000u : 5'000u) << "rank " << process.world_rank();
  });
  EXPECT_TRUE(report.ok()) << report.failure << world.machine().streams().describe();
}

TEST(TcpFaults, ALostProcessIsReportedToThoseWhoSendAndThoseWhoListen) {
  for_seeds(50, [](uint64_t seed) { lose_a_rank(seed, false); });
}
TEST(TcpFaults, ALostHostIsReportedWithinItsTimeouts) {
  for_seeds(50, [](uint64_t seed) { lose_a_rank(seed, true); });
}

// A rank computes for longer than all timeouts, and strangers have filled its queue: it is not lost, for its host
// answers.
TEST(TcpFaults, ARankThatComputesBehindAFullQueueIsNotLost) {
  for_seeds(50, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = tcp_world(seed, 2);
    options.streams.networks = uint32_t(1 + rng.below(2));
    options.streams.backlog = size_t(1 + rng.below(3));
    options.tunables.tcp_connect_timeout_s = 2;
    options.stream_faults.drop_in_1024 = uint32_t(rng.below(10));
    World world(options);
    for (int i = 0; i < 20; ++i) world.machine().streams().plan_stranger(rng.below(20 * kMs), 1);
    Report report = world.run([&](Process& process) {
      PingPong traffic(process, 30'000);
      process.clock().charge_ns(process.world_rank() == 1 ? 40 * kSecond : 50 * kMs);
      for (int i = 0; i < 5; ++i) traffic.once(i);
      quieten(process);
    });
    EXPECT_TRUE(report.ok()) << report.failure << world.machine().streams().describe();
    EXPECT_GT(world.machine().streams().totals().queue_full, 0u);
  });
}

// More strangers than there is room for unproven connections, idle or with junk: ranks still find each other.
TEST(TcpFaults, AFloodOfStrangersKeepsNobodyOut) {
  for_seeds(50, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = tcp_world(seed, 2);
    options.streams.descriptors = uint32_t(40 + rng.below(500));
    World world(options);
    const uint64_t over_ns = kSecond + rng.below(kSecond);
    for (int i = 0; i < 600; ++i) world.machine().streams().plan_stranger(rng.below(over_ns), uint32_t(rng.below(2)));
    Report report = world.run([&](Process& process) {
      PingPong traffic(process, 30'000);
      const uint64_t begin_ns = over_ns / 2 + rng.below(over_ns / 2);
      for (uint64_t now = 0; now < begin_ns; now = process.clock().now_ns()) {
        process.clock().charge_ns(kMs);
        (void)process.p2p().progress().poll();
      }
      for (int i = 0; i < 20; ++i) traffic.once(i);
      EXPECT_LT(traffic.longest_ns, 5 * kSecond);
      quieten(process);
    });
    EXPECT_TRUE(report.ok()) << report.failure << world.machine().streams().describe();
    EXPECT_GT(world.machine().streams().totals().strangers, 200u);
  });
}

// With checksums, on a network that damages one segment in eight so that TCP does not notice: handshakes and streams
// are repeated until they are sound, also where the length of a message is damaged and nothing follows it.
TEST(TcpFaults, DamagedHandshakesAndStreamsAreRepeated) {
  for_seeds(50, [](uint64_t seed) {
    WorldOptions options = tcp_world(seed, 2);
    (seed % 2 ? options.tunables.tcp_crc : options.tunables.encrypt) = 1;
    options.tunables.tcp_connect_timeout_s = 600;
    options.stream_faults.corrupt_in_65536 = 8192;
    World world(options);
    uint64_t unsound = 0;
    Report report = world.run([&](Process& process) {
      PingPong traffic(process, 5000);
      for (int i = 0; i < 30; ++i) traffic.once(i);
      unsound += process.counters().tcp_unsound;
      quieten(process);
    });
    EXPECT_TRUE(report.ok()) << report.failure << world.machine().streams().describe();
    EXPECT_GT(unsound, 0u);
  });
}

// All call all at the same moment, over and over, each connection lost soon after: no message is.
TEST(TcpFaults, AllCallAllAtTheSameTime) {
  for_seeds(50, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = tcp_world(seed, uint32_t(2 + rng.below(5)));
    options.stream_faults.reset_in_65536 = uint32_t(2000 + rng.below(8000));
    options.stream_faults.drop_in_1024 = uint32_t(rng.below(20));
    World world(options);
    uint64_t resumed = 0;
    Report report = world.run([&](Process& process) {
      PredefinedTypes types;
      const Datatype& byte = types.get(type_id::kByte);
      const int me = process.world_rank(), size = int(options.ranks);
      for (int round = 0; round < 20; ++round) {
        std::vector<std::byte> out(3000, std::byte(me * 20 + round)), in(out.size());
        for (int k = 1; k < size; ++k) {
          const int to = (me + k) % size, from = (me + size - k) % size;
          Request* request =
              process.p2p().ireceive({in.data(), Count(in.size()), &byte, PeerId(from), from, round, kContext});
          EXPECT_FALSE(process.p2p().send(
              {out.data(), Count(out.size()), &byte, PeerId(to), me, round, kContext, SendMode::standard}));
          process.p2p().wait(*request);
          EXPECT_FALSE(request->error) << request->error.text();
          request->release();
          EXPECT_EQ(std::count(in.begin(), in.end(), std::byte(from * 20 + round)), ptrdiff_t(in.size()));
        }
      }
      resumed += process.counters().tcp_resumed;
      quieten(process);
    });
    EXPECT_TRUE(report.ok()) << report.failure << world.machine().streams().describe();
    EXPECT_GT(resumed, 0u);
  });
}

}  // namespace
}  // namespace tern::sim
