// SimPath and its faults against the contract of Path: order per pair, whole and streamed delivery, completions once
// and from poll only, refusals, gets in both ways, lost peers; and the costs of the network's model.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <vector>

#include "progress/engine.h"
#include "sim/machine.h"
#include "tests/peer_sink.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

std::byte pattern(uint64_t message, size_t at) { return std::byte(uint8_t(message * 131 + at * 7 + (at >> 8))); }

/// Checks what climbs up: messages of a sender are numbered (header.tag) and their bytes follow `pattern`.
class CheckingSink final : public test::PeerSink {
 public:
  void on_message(PeerId peer, const wire::Header& header, const std::byte* payload, size_t bytes) override {
    ++whole;
    check(peer, header, payload, bytes);
  }
  Landing on_header(PeerId peer, const wire::Header& header, size_t bytes) override {
    ++announced;
    auto& buffer = landings[peer];
    EXPECT_TRUE(buffer.empty());
    buffer.assign(bytes, std::byte{});
    // Some receivers want less than is coming.
    Landing landing;
    landing.target = Cursor::bytes(buffer.data(), header.tag % 5 == 4 ? bytes / 2 : bytes);
    landing.token = this;
    return landing;
  }
  void on_landed(PeerId peer, const wire::Header& header, Landing& landing, size_t bytes, Error error) override {
    EXPECT_EQ(landing.token, this);
    auto buffer = std::move(landings[peer]);
    landings[peer].clear();
    if (error) {
      ++broken;
      return;
    }
    EXPECT_EQ(landing.target.remaining(), 0u);
    size_t wanted = header.tag % 5 == 4 ? bytes / 2 : bytes;
    for (size_t i = wanted; i < bytes; ++i) {
      ASSERT_EQ(buffer[i], std::byte{}) << "the rest must be thrown away";
      buffer[i] = pattern(uint64_t(header.tag), i);
    }
    check(peer, header, buffer.data(), bytes);
  }
  void on_peer_lost(PeerId peer, Error error) override {
    EXPECT_TRUE(bool(error));
    lost.push_back(peer);
  }

  int received(PeerId peer) { return next[peer]; }
  std::map<PeerId, int> next;
  std::map<PeerId, std::vector<std::byte>> landings;
  std::vector<PeerId> lost;
  int whole = 0, announced = 0, broken = 0;

 private:
  void check(PeerId peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
    ASSERT_EQ(header.tag, next[peer]) << "out of order";
    ++next[peer];
    ASSERT_EQ(bytes, size_t(header.context));
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(payload[i], pattern(uint64_t(header.tag), i)) << "at byte " << i;
  }
};

/// What one rank needs to drive a path without a Process.
struct Bench {
  explicit Bench(Machine::Rank& rank)
      : clock(rank.make_clock()),
        port(rank.make_wait_port()),
        engine(*clock, driving, *port),
        path(rank.make_path(sink, *clock)) {
    engine.add(*path);
  }
  RemoteMemory& memory() { return *path->remote_memory(); }
  CheckingSink sink;
  std::unique_ptr<Clock> clock;
  Driving driving;
  std::unique_ptr<WaitPort> port;
  ProgressEngine engine;
  std::unique_ptr<Path> path;
};

wire::Header header_of(int number, size_t bytes) {
  wire::Header header{wire::Kind::eager};
  header.tag = number;
  header.context = bytes;
  return header;
}

struct Queued : SendOperation {
  std::vector<std::byte> data;
  int done_calls = 0;
  bool failed = false;
};

std::vector<std::byte> message(int number, size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = pattern(uint64_t(number), i);
  return data;
}

/// Sends `data` now or queues it; the operation lives in `queue` until the end.
void send(Bench& bench, std::deque<Queued>& queue, PeerId peer, int number, std::vector<std::byte> data,
          bool& in_call) {
  wire::Header header = header_of(number, data.size());
  if (data.size() <= bench.path->properties().eager_bytes &&
      bench.path->try_send(bench.path->lane(peer), header, data.data(), data.size())) {
    std::fill(data.begin(), data.end(), std::byte{0xee});  // the path has copied
    return;
  }
  Queued& operation = queue.emplace_back();
  operation.data = std::move(data);
  operation.lane = &bench.path->lane(peer);
  operation.header = header;
  operation.payload = Cursor::bytes(operation.data.data(), operation.data.size());
  operation.done = [](SendOperation& self, Error error) {
    auto& mine = static_cast<Queued&>(self);
    ++mine.done_calls;
    mine.failed = bool(error);
    std::fill(mine.data.begin(), mine.data.end(), std::byte{0xee});  // the memory is ours again
  };
  in_call = true;
  bench.path->enqueue(operation);
  EXPECT_EQ(operation.done_calls, 0) << "done was called from enqueue";
  in_call = false;
}

WorldOptions random_options(uint64_t seed) {
  Rng rng(seed * 7919);
  WorldOptions options;
  options.seed = seed;
  options.ranks = uint32_t(2 + rng.below(5));
  options.ranks_per_node = uint32_t(1 + rng.below(3));
  options.faults = Faults::random(rng);
  options.network.packet_bytes = size_t{1} << (4 + rng.below(10));
  options.network.window_bytes = 128 + rng.below(uint64_t{1} << (8 + rng.below(9)));
  options.network.eager_bytes = 64 + rng.below(10000);
  options.network.announced_in_256 = uint32_t(rng.below(256));
  options.network.gathered_in_256 = uint32_t(rng.below(256));
  options.network.arrivals_per_poll = uint32_t(rng.below(5));
  options.limits.events = 20'000'000;
  return options;
}

// Everybody floods everybody, himself included, with messages around the limits.
Report flood(const WorldOptions& options, int messages) {
  return Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    ASSERT_FALSE(rank.make_launcher()->fence());
    Rng rng(rank.seed);
    std::deque<Queued> queue;
    bool in_call = false;
    for (int number = 0; number < messages; ++number) {
      for (PeerId peer = 0; peer < options.ranks; ++peer) {
        size_t bytes = rng.chance(1, 4) ? 0 : rng.below(rng.chance(1, 8) ? 40000 : 500);
        send(bench, queue, peer, number, message(number, bytes), in_call);
        if (rng.chance(1, 4)) bench.engine.poll();
      }
    }
    auto all_here = [&] {
      for (PeerId peer = 0; peer < options.ranks; ++peer) {
        if (bench.sink.received(peer) != messages) return false;
      }
      for (Queued& operation : queue) {
        if (operation.done_calls == 0) return false;
      }
      return !bench.path->has_unsent();
    };
    bench.engine.wait_until(all_here);
    for (Queued& operation : queue) {
      EXPECT_EQ(operation.done_calls, 1);
      EXPECT_FALSE(operation.failed);
    }
    ASSERT_FALSE(rank.make_launcher()->fence());
  });
}

TEST(SimPath, FloodsArriveWholeAndInOrder) {
  for_seeds(150, [](uint64_t seed) {
    Report report = flood(random_options(seed), 20);
    EXPECT_TRUE(report.ok()) << report.failure;
  });
}

TEST(SimPath, TheSameSeedGivesTheSameRun) {
  for_seeds(10, [](uint64_t seed) {
    WorldOptions options = random_options(seed);
    options.keep_trace = true;
    Report first = flood(options, 5), second = flood(options, 5);
    ASSERT_GT(first.trace.size(), 50u);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_TRUE(first.trace == second.trace);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
    options.seed += 1'000'000;
    EXPECT_NE(flood(options, 5).trace_hash, first.trace_hash);
  });
}

TEST(SimPath, BothWaysOfDeliveryAreUsed) {
  WorldOptions options;
  options.network.announced_in_256 = 128;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    std::deque<Queued> queue;
    bool in_call = false;
    if (rank.index() == 0) {
      for (int i = 0; i < 100; ++i) send(bench, queue, 1, i, message(i, 100), in_call);
    }
    bench.engine.wait_until(
        [&] { return rank.index() == 0 ? !bench.path->has_unsent() : bench.sink.received(0) == 100; });
    if (rank.index() == 1) {
      EXPECT_GT(bench.sink.whole, 20);
      EXPECT_GT(bench.sink.announced, 20);
    }
    ASSERT_FALSE(rank.make_launcher()->fence());
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(SimPath, AQueuedMessageCanBeWithdrawnUntilItLeaves) {
  WorldOptions options;
  options.network.window_bytes = 1000;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    if (rank.index() == 0) {
      std::deque<Queued> queue;
      bool in_call = false;
      send(bench, queue, 1, 0, message(0, 5000), in_call);  // is under way
      send(bench, queue, 1, 99, message(99, 10), in_call);  // waits behind it
      send(bench, queue, 1, 1, message(1, 10), in_call);
      ASSERT_EQ(queue.size(), 3u);
      EXPECT_FALSE(bench.path->withdraw(queue[0]));
      EXPECT_TRUE(bench.path->withdraw(queue[1]));
      bench.engine.wait_until([&] { return queue[0].done_calls && queue[2].done_calls; });
      EXPECT_EQ(queue[1].done_calls, 0);
      EXPECT_FALSE(bench.path->withdraw(queue[2]));
    } else {
      bench.engine.wait_until([&] { return bench.sink.received(0) == 2; });
    }
    ASSERT_FALSE(rank.make_launcher()->fence());
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

struct Fetch : TransferOperation {
  int done_calls = 0;
  bool failed = false;
};

void expect_gets(NetworkModel::Get mode, uint32_t fail_in_1024) {
  WorldOptions options;
  options.ranks = 3;
  options.ranks_per_node = 3;
  options.network.get = mode;
  options.faults.get_fail_in_1024 = fail_in_1024;
  // Out-of-band addresses, as a header would carry them.
  std::vector<std::byte> memory = message(1, 100'000);
  RemoteKey key;
  bool exposed = false, over = false;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    EXPECT_TRUE(bench.memory().remote_properties().get);
    if (rank.index() == 0) {
      key = bench.memory().expose(memory.data(), memory.size(), {.read = true, .write = true});
      exposed = true;
      ASSERT_FALSE(rank.make_launcher()->fence());
      ASSERT_FALSE(rank.make_launcher()->fence());
      bench.memory().conceal(key);
      over = true;
      return;
    }
    ASSERT_FALSE(rank.make_launcher()->fence());
    ASSERT_TRUE(bench.memory().can_get(bench.path->lane(0)));
    std::vector<std::byte> here(60'000);
    Fetch fetches[3];
    for (int i = 0; i < 3; ++i) {
      fetches[i].lane = &bench.path->lane(0);
      fetches[i].local = Cursor::bytes(here.data() + i * 20'000, 20'000);
      fetches[i].remote_address = reinterpret_cast<uintptr_t>(memory.data()) + size_t(i) * 30'000;
      fetches[i].key = key;
      fetches[i].bytes = 20'000;
      fetches[i].done = [](TransferOperation& self, Error error) {
        ++static_cast<Fetch&>(self).done_calls;
        static_cast<Fetch&>(self).failed = bool(error);
      };
      bench.memory().get(fetches[i]);
    }
    bench.engine.wait_until([&] { return fetches[0].done_calls && fetches[1].done_calls && fetches[2].done_calls; });
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(fetches[i].done_calls, 1);
      EXPECT_EQ(fetches[i].failed, fail_in_1024 == 1024);
      for (size_t j = 0; !fetches[i].failed && j < 20'000; ++j) {
        ASSERT_EQ(here[size_t(i) * 20'000 + j], pattern(1, size_t(i) * 30'000 + j));
      }
    }
    ASSERT_FALSE(rank.make_launcher()->fence());
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  EXPECT_TRUE(exposed && over);
}

TEST(SimPath, GetByTheAdapter) { expect_gets(NetworkModel::Get::adapter, 0); }
TEST(SimPath, GetByTheCpu) { expect_gets(NetworkModel::Get::cpu, 0); }
TEST(SimPath, GetThatFails) { expect_gets(NetworkModel::Get::adapter, 1024); }

TEST(SimPath, AGetOfConcealedMemoryIsABreach) {
  WorldOptions options;
  options.network.get = NetworkModel::Get::adapter;
  std::vector<std::byte> memory(100);
  RemoteKey key;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    if (rank.index() == 0) {
      key = bench.memory().expose(memory.data(), memory.size(), {.read = true, .write = true});
      bench.memory().conceal(key);
      (void)rank.make_launcher()->fence();
      (void)rank.make_launcher()->fence();
      return;
    }
    (void)rank.make_launcher()->fence();
    Fetch fetch;
    std::byte here[10];
    fetch.lane = &bench.path->lane(0);
    fetch.local = Cursor::bytes(here, sizeof here);
    fetch.remote_address = reinterpret_cast<uintptr_t>(memory.data());
    fetch.key = key;
    fetch.bytes = sizeof here;
    fetch.done = [](TransferOperation& self, Error) { ++static_cast<Fetch&>(self).done_calls; };
    bench.memory().get(fetch);
    bench.engine.wait_until([&] { return fetch.done_calls != 0; });
    (void)rank.make_launcher()->fence();
  });
  EXPECT_NE(report.failure.find("rank 1 gets memory of rank 0 that is not exposed"), std::string::npos)
      << report.failure;
}

TEST(SimPath, ALostPeerEndsWhatWasQueuedAndHalfReceived) {
  WorldOptions options;
  options.ranks = 3;
  options.network.window_bytes = 4096;
  options.faults.losses.push_back({1, 30'000, 5'000});
  bool survivor[3] = {};
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    std::deque<Queued> queue;
    bool in_call = false;
    if (rank.index() == 1) {
      send(bench, queue, 2, 0, message(0, 10'000'000), in_call);  // dies amid this
      bench.engine.wait_until([&] { return false; });
    }
    if (rank.index() == 0) send(bench, queue, 1, 0, message(0, 10'000'000), in_call);
    bench.engine.wait_until([&] { return !bench.sink.lost.empty(); });
    EXPECT_EQ(bench.sink.lost, std::vector<PeerId>{1});
    EXPECT_GE(rank.strand.now_ns(), 35'000u);
    if (rank.index() == 0) {
      EXPECT_EQ(queue[0].done_calls, 1);
      EXPECT_TRUE(queue[0].failed);
      // Later sends to it fail, too, from poll.
      send(bench, queue, 1, 1, message(1, 10), in_call);
      bench.engine.wait_until([&] { return queue[1].done_calls != 0; });
      EXPECT_TRUE(queue[1].failed);
    } else {
      EXPECT_EQ(bench.sink.broken, 1);
    }
    survivor[rank.index()] = true;
    ASSERT_FALSE(rank.make_launcher()->fence());  // of those who live
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  EXPECT_TRUE(survivor[0] && survivor[2] && report.ranks[1].lost);
}

// Two senders, one receiver: the receiver's port is the bottleneck, and what they send takes twice as long as for one.
TEST(Network, LinksSerialise) {
  auto time_for = [](uint32_t senders) {
    WorldOptions options;
    options.ranks = senders + 1;
    options.network.window_bytes = 1 << 20;
    options.network.send_ns = options.network.receive_ns = 0;
    options.network.copy_bytes_per_us = 1'000'000;
    uint64_t finished = 0;
    Report report = Machine(options).run([&](Machine::Rank& rank) {
      Bench bench(rank);
      std::deque<Queued> queue;
      bool in_call = false;
      if (rank.index() != 0) {
        send(bench, queue, 0, 0, message(0, 4'000'000), in_call);
        bench.engine.wait_until([&] { return !bench.path->has_unsent(); });
      } else {
        bench.engine.wait_until([&] {
          for (PeerId peer = 1; peer <= senders; ++peer) {
            if (bench.sink.received(peer) != 1) return false;
          }
          return true;
        });
        finished = rank.strand.now_ns();
      }
      ASSERT_FALSE(rank.make_launcher()->fence());
    });
    EXPECT_TRUE(report.ok()) << report.failure;
    return double(finished);
  };
  double one = time_for(1), two = time_for(2), four = time_for(4);
  double wire_ns = 4'000'000 / 12.5;
  EXPECT_GT(one, wire_ns);
  EXPECT_LT(one, wire_ns * 1.2);
  EXPECT_NEAR(two / one, 2.0, 0.2);
  EXPECT_NEAR(four / one, 4.0, 0.4);
}

}  // namespace
}  // namespace tern::sim
