// Point-to-point in special situations: memory under a flood that nobody reads, lost peers, ready sends, credits that
// come back.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "sim/world.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

constexpr uint64_t kContext = uint64_t{1} << 2;

struct Bytes {
  explicit Bytes(PredefinedTypes& types) : type(types.get(type_id::kByte)) {}
  SendArguments send(const void* data, size_t n, PeerId to, int me, int tag, SendMode mode = SendMode::standard) const {
    return {data, Count(n), &type, to, me, tag, kContext, mode};
  }
  ReceiveArguments receive(void* data, size_t n, PeerId from, int tag) const {
    return {data, Count(n), &type, from, from == kNoPeer ? kAnySource : int(from), tag, kContext};
  }
  const Datatype& type;
};

/// Payload bytes of eager messages that arrived at `rank`, from the trace.
uint64_t eager_bytes_at(const Report& report, uint32_t rank, uint64_t until_ns) {
  uint64_t sum = 0;
  for (const TraceEntry& entry : report.trace) {
    bool eager = entry.first >> 32 == uint64_t(wire::Kind::eager);
    if (entry.kind == EventKind::receive && entry.rank == rank && eager && entry.time_ns < until_ns) {
      sum += entry.second & 0xffffffff;
    }
  }
  return sum;
}

TEST(PointToPointLimits, AFloodThatNobodyReadsIsBounded) {
  for_seeds(10, [](uint64_t seed) {
    WorldOptions options;
    options.seed = seed;
    options.keep_trace = true;
    options.tunables.unexpected_credit_bytes = 64 * 1024;
    constexpr int kMessages = 2000;
    constexpr size_t kBytes = 1000;
    uint64_t first_receive_ns = 0;
    Report report = World(options).run([&](Process& process) {
      PredefinedTypes types;
      Bytes bytes(types);
      PointToPoint& p2p = process.p2p();
      if (process.world_rank() == 0) {
        std::vector<std::byte> data(kBytes, std::byte{5});
        std::vector<Request*> requests;
        for (int i = 0; i < kMessages; ++i) requests.push_back(p2p.isend(bytes.send(data.data(), kBytes, 1, 0, i)));
        for (Request* request : requests) {
          p2p.wait(*request);
          EXPECT_FALSE(request->error);
          request->release();
        }
        return;
      }
      // Polls (as a program that probes for something else does), and receives nothing for a long time.
      Status status;
      for (int i = 0; i < 5000; ++i) EXPECT_FALSE(p2p.iprobe(0, kMessages + 1, kContext, status));
      first_receive_ns = process.clock().now_ns();
      std::vector<std::byte> data(kBytes);
      for (int i = kMessages - 1; i >= 0; --i) {
        data.assign(kBytes, std::byte{});
        ASSERT_FALSE(p2p.receive(bytes.receive(data.data(), kBytes, 0, i), status));
        ASSERT_EQ(status.tag, i);
        ASSERT_EQ(data, std::vector<std::byte>(kBytes, std::byte{5}));
      }
    });
    ASSERT_TRUE(report.ok()) << report.failure;
    uint64_t unread = eager_bytes_at(report, 1, first_receive_ns);
    EXPECT_GT(unread, 32u * 1024) << "the credit was not used";
    EXPECT_LE(unread, 64u * 1024);
  });
}

TEST(PointToPointLimits, CreditsComeBack) {
  WorldOptions options;
  options.keep_trace = true;
  options.tunables.unexpected_credit_bytes = 16 * 1024;
  Report report = World(options).run([&](Process& process) {
    PredefinedTypes types;
    Bytes bytes(types);
    std::vector<std::byte> data(1000);
    Status status;
    // Ping-pong of far more than the credit: with credits that come back all of it goes eagerly.
    for (int i = 0; i < 500; ++i) {
      if (process.world_rank() == 0) {
        ASSERT_FALSE(process.p2p().send(bytes.send(data.data(), 1000, 1, 0, i)));
        ASSERT_FALSE(process.p2p().receive(bytes.receive(data.data(), 0, 1, i), status));
      } else {
        ASSERT_FALSE(process.p2p().receive(bytes.receive(data.data(), 1000, 0, i), status));
        ASSERT_FALSE(process.p2p().send(bytes.send(data.data(), 0, 0, 1, i)));
      }
    }
  });
  ASSERT_TRUE(report.ok()) << report.failure;
  EXPECT_EQ(eager_bytes_at(report, 1, kNever_ns), 500u * 1000);
  for (const TraceEntry& entry : report.trace) {
    EXPECT_FALSE(entry.kind == EventKind::send && entry.first >> 32 == uint64_t(wire::Kind::credit))
        << "the answers take it along";
  }
}

TEST(PointToPointLimits, ReadySendsToPostedReceives) {
  Report report = World({}).run([&](Process& process) {
    PredefinedTypes types;
    Bytes bytes(types);
    std::vector<char> data(100'000, process.world_rank() == 0 ? 'x' : ' ');
    if (process.world_rank() == 1) {
      Request* receives[2] = {process.p2p().ireceive(bytes.receive(data.data(), 100'000, 0, 1)),
                              process.p2p().ireceive(bytes.receive(data.data(), 10, kNoPeer, 2))};
      ASSERT_FALSE(process.launcher().fence());
      for (Request* request : receives) {
        process.p2p().wait(*request);
        EXPECT_FALSE(request->error);
        request->release();
      }
      EXPECT_EQ(data.back(), 'x');
    } else {
      ASSERT_FALSE(process.launcher().fence());
      ASSERT_FALSE(process.p2p().send(bytes.send(data.data(), 10, 1, 0, 2, SendMode::ready)));
      ASSERT_FALSE(process.p2p().send(bytes.send(data.data(), 100'000, 1, 0, 1, SendMode::ready)));
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// Rank 1 dies amid traffic of every kind: whatever waits for it ends with an error, whatever does not goes on.
TEST(PointToPointLimits, ALostPeerEndsItsRequestsAndNoOthers) {
  for_seeds(60, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options;
    options.seed = seed;
    options.ranks = 3;
    options.network.get = NetworkModel::Get(rng.below(3));
    options.ranks_per_node = options.network.get == NetworkModel::Get::cpu ? 3 : 1;
    options.network.window_bytes = 20'000;
    options.network.announced_in_256 = 100;
    options.faults.losses.push_back({1, 25'000 + rng.below(300'000), 1 + rng.below(20'000)});
    Report report = World(options).run([&](Process& process) {
      PredefinedTypes types;
      Bytes bytes(types);
      PointToPoint& p2p = process.p2p();
      int me = process.world_rank();
      std::vector<std::vector<std::byte>> buffers;
      std::vector<std::pair<Request*, bool>> requests;  // and whether it is with the lost rank
      for (int i = 0; i < 20; ++i) {
        for (PeerId peer = 0; peer < 3; ++peer) {
          if (int(peer) == me) continue;
          size_t n = i % 4 == 0 ? 50'000 : 100;
          SendMode mode = i % 3 == 0 ? SendMode::synchronous : SendMode::standard;
          bool doomed = peer == 1;
          requests.emplace_back(p2p.isend(bytes.send(buffers.emplace_back(n).data(), n, peer, me, i, mode)), doomed);
          requests.emplace_back(p2p.ireceive(bytes.receive(buffers.emplace_back(n).data(), n, peer, i)), doomed);
        }
        if (rng.chance(1, 2)) p2p.progress().poll();
      }
      // More than rank 1 ever sends: this one can end by the loss only.
      if (me != 1) requests.emplace_back(p2p.ireceive(bytes.receive(buffers.emplace_back(1).data(), 1, 1, 99)), true);
      if (me == 1) p2p.progress().wait_until([] { return false; });
      for (auto& [request, doomed] : requests) {
        p2p.wait(*request);
        if (!doomed) {
          EXPECT_FALSE(request->error) << request->error.text();
        } else if (request == requests.back().first) {
          EXPECT_EQ(request->error.error_class(), int(ErrorClass::proc_aborted));
        }
        request->release();
      }
      // New ones fail at once, blocking or not.
      std::byte one{};
      Status status;
      EXPECT_EQ(p2p.send(bytes.send(&one, 1, 1, me, 5)).error_class(), int(ErrorClass::proc_aborted));
      EXPECT_EQ(p2p.receive(bytes.receive(&one, 1, 1, 98), status).error_class(), int(ErrorClass::proc_aborted));
      p2p.progress().wait_until([&] { return p2p.quiet(); });
      if (me != 1) {
        EXPECT_EQ(p2p.pending(), Need::nothing);
      }
    });
    EXPECT_TRUE(report.ok()) << report.failure;
  });
}

// What is complete needs nobody's attention any more, whether or not the program has asked; a persistent request only
// while active.
TEST(PointToPointPending, NothingOnceAReceiveIsComplete) {
  for (size_t n : {8u, 100'000u}) {
    Report report = World({}).run([&](Process& process) {
      PredefinedTypes types;
      Bytes bytes(types);
      PointToPoint& p2p = process.p2p();
      std::vector<std::byte> data(n);
      if (process.world_rank() == 0) {
        for (int tag = 0; tag < 5; ++tag) ASSERT_FALSE(p2p.send(bytes.send(data.data(), n, 1, 0, tag)));
        return;
      }
      auto receive = [&](Request& request) {
        EXPECT_EQ(p2p.pending(), Need::now);
        p2p.progress().wait_until([&] { return request.complete() && p2p.quiet(); });
        EXPECT_EQ(p2p.pending(), Need::nothing);
      };
      Request* once = p2p.ireceive(bytes.receive(data.data(), n, 0, 0));
      receive(*once);
      once->release();
      Request* again = p2p.receive_init(bytes.receive(data.data(), n, 0, 1));
      Request* never = p2p.ireceive(bytes.receive(data.data(), n, 0, 99));
      never->cancel();
      p2p.wait(*never);
      never->release();
      EXPECT_EQ(p2p.pending(), Need::nothing);
      ASSERT_FALSE(again->start());
      receive(*again);
      again->set_inactive();
      again->release();
      Status status;
      MatchedMessage* probed = p2p.mprobe(0, 2, kContext, status);
      EXPECT_FALSE(p2p.mreceive(probed, data.data(), Count(n), bytes.type, status));
      probed = p2p.mprobe(0, 3, kContext, status);
      Request* matched = p2p.imreceive(probed, data.data(), Count(n), bytes.type);
      p2p.wait(*matched);
      matched->release();
      ASSERT_FALSE(p2p.receive(bytes.receive(data.data(), n, 0, 4), status));
      p2p.progress().wait_until([&] { return p2p.quiet(); });
      EXPECT_EQ(p2p.pending(), Need::nothing);
    });
    ASSERT_TRUE(report.ok()) << report.failure;
  }
}

}  // namespace
}  // namespace tern::sim
