// Connections of tuple queues that fail while messages are on them: before a message leaves, when its receive has been
// taken, or when it has landed and its sender does not know it. Everything arrives once and in order.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "base/rng.h"
#include "tests/sim/seeds.h"
#include "tests/sim/tuple_side.h"

namespace tern::sim {
namespace {

struct Message {
  std::vector<uint8_t> data;
  Request* request = nullptr;
};

// Both ranks send bursts in both tags; a receive is posted before or after its message.
uint64_t exchange(Process& process, uint64_t seed) {
  constexpr int kRounds = 12, kTags = 2;
  Side side(process);
  Rng sizes(seed), mine(seed * 2 + uint64_t(side.me));
  for (int tag = 0; tag < kTags; ++tag) side.open(tag);
  for (int round = 0; round < kRounds; ++round) {
    const int burst = int(1 + sizes.below(10));
    std::vector<size_t> lengths;
    for (int i = 0; i < 2 * burst * kTags; ++i)
      lengths.push_back(size_t(sizes.below(uint64_t{1} << (2 + sizes.below(16)))));
    std::deque<Message> out, in;
    auto length = [&](int from, int i) { return lengths[size_t(from * burst * kTags + i)]; };
    auto content = [&](int from, int i) { return uint8_t(round * 31 + i * 3 + from); };
    auto post = [&] {
      for (int i = 0; i < burst * kTags; ++i) {
        Message& message = in.emplace_back();
        message.data.resize(length(side.other, i));
        message.request = side.p2p.ireceive(side.from(message.data.data(), message.data.size(), i % kTags));
      }
    };
    const bool early = mine.chance(1, 2);
    if (early) post();
    for (int i = 0; i < burst * kTags; ++i) {
      Message& message = out.emplace_back();
      message.data.assign(length(side.me, i), content(side.me, i));
      message.request = side.p2p.isend(side.to(message.data.data(), message.data.size(), i % kTags));
    }
    if (!early) {
      process.clock().charge_ns(mine.below(3'000'000));
      post();
    }
    for (int i = 0; i < burst * kTags; ++i) {
      side.finish(in[size_t(i)].request);
      EXPECT_EQ(in[size_t(i)].data, std::vector<uint8_t>(length(side.other, i), content(side.other, i)));
    }
    for (Message& message : out) side.finish(message.request);
  }
  return process.progress().counters().tuple_repairs;
}

TEST(TupleRepair, NothingIsLostDoubledOrOutOfOrder) {
  uint64_t repairs = 0;
  for_seeds(60, [&](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = tuple_world(rng.chance(1, 2) ? 8192 : 0);
    options.seed = seed;
    options.adapter_faults.xrc_error_in_1024 = uint32_t(10 + rng.below(300));
    options.adapter.segment_bytes = uint32_t(256 << rng.below(8));
    options.tunables.tuple_ways = int64_t(1 + rng.below(4));
    options.tunables.rdma_timeout_ms = 1;
    if (rng.chance(1, 2)) options.faults = Faults::random(rng);
    Report report = World(options).run([&](Process& process) { repairs += exchange(process, seed); });
    EXPECT_TRUE(report.ok()) << report.failure;
  });
  if (all_seeds()) {
    EXPECT_GT(repairs, 20u);
  }
}

// The receiver says that it has no room for longer messages, and gets one: the adapter ends the connection. The message
// comes again, into a receive that has room for the rest, and its end is that of any truncated message.
TEST(TupleRepair, ALongerMessageThanAsserted) {
  WorldOptions options = tuple_world();
  Report report = World(options).run([](Process& process) {
    Side side(process);
    MessageHints hints;
    hints.exact_length = true;
    side.p2p.set_hints(kContext, hints);
    side.open(1);
    std::vector<uint8_t> data(5000, 7), in(5000);
    for (int i = 0; i < 3; ++i) {
      if (side.me == 0) {
        Request* first = side.p2p.isend(side.to(data.data(), data.size(), 1));
        side.send(data.data(), data.size(), 1);
        side.finish(first);
        continue;
      }
      std::fill(in.begin(), in.end(), uint8_t(0));
      Request* shorter = side.p2p.ireceive(side.from(in.data(), 100, 1));
      std::vector<uint8_t> next(5000);
      Request* whole = side.p2p.ireceive(side.from(next.data(), next.size(), 1));
      side.p2p.wait(*shorter);
      EXPECT_EQ(shorter->error.error_class(), int(ErrorClass::truncate));
      EXPECT_EQ(in[99], 7);
      EXPECT_EQ(in[100], 0);
      shorter->release();
      side.finish(whole);
      EXPECT_EQ(next, data);
    }
    if (side.me == 0) {
      EXPECT_EQ(process.progress().counters().tuple_repairs, 3u);
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// A connection that can be made but never carries a message: an error, not a hang.
TEST(TupleRepair, AConnectionThatNeverWorksIsGivenUp) {
  WorldOptions options = tuple_world();
  options.adapter_faults.xrc_error_in_1024 = 3 * 1024;
  options.tunables.rdma_keepalive_ms = 5;
  options.tunables.rdma_timeout_ms = 1;
  int failures = 0;
  // Not through World: the closing meeting cannot be held over a broken connection.
  Report report = World(options).run_unstarted([&](Machine::Rank& rank) {
    auto process = World::make_process(rank, std::make_shared<Driving>());
    EXPECT_FALSE(process->start());
    Side side(*process);
    std::vector<uint8_t> data(5000, 1);
    for (int i = 0; i < 20; ++i) {
      SendArguments out = side.to(data.data(), data.size(), 1);
      out.mode = SendMode::synchronous;
      Request* request = side.me == 0 ? side.p2p.isend(out) : side.p2p.ireceive(side.from(data.data(), data.size(), 1));
      side.p2p.wait(*request);
      const bool failed = bool(request->error);
      failures += failed;
      if (failed) {
        EXPECT_EQ(request->error.error_class(), int(ErrorClass::proc_aborted)) << request->error.text();
      }
      request->release();
      if (failed) break;
    }
    if (side.me == 0) {
      EXPECT_GT(process->progress().counters().tuple_repairs, 1u);
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  EXPECT_GT(failures, 0);
}

// Bursts of numbered messages until one fails. True: it was over in order; false: the peer was lost.
bool bursts_until_lost(Process& process, uint64_t seed, int& received) {
  constexpr int kRounds = 20, kBurst = 8, kTags = 2;
  Side side(process);
  Rng rng(seed);
  bool good = true;
  for (int round = 0; round < kRounds && good; ++round) {
    std::vector<Message> messages(kBurst * kTags);
    for (size_t i = 0; i < messages.size(); ++i) {
      Message& message = messages[i];
      const auto content = uint8_t(round * 37 + int(i));
      message.data.assign(size_t(1 + rng.below(60'000)), side.me == 0 ? content : uint8_t(~content));
      const int tag = int(i) % kTags;
      message.request = side.me == 0 ? side.p2p.isend(side.to(message.data.data(), message.data.size(), tag))
                                     : side.p2p.ireceive(side.from(message.data.data(), message.data.size(), tag));
    }
    for (size_t i = 0; i < messages.size(); ++i) {
      Message& message = messages[i];
      side.p2p.wait(*message.request);
      if (message.request->error) {
        EXPECT_EQ(message.request->error.error_class(), int(ErrorClass::proc_aborted)) << message.request->error.text();
        good = false;
      } else if (side.me == 1) {
        ++received;
        EXPECT_EQ(message.data, std::vector<uint8_t>(message.data.size(), uint8_t(round * 37 + int(i))));
      }
      message.request->release();
    }
  }
  return good;
}

// The adapter refuses connections and messages while a way is repaired: the peer is lost, and what was received before
// that is whole and in order. Nothing leaves behind a message that could not be sent again.
TEST(TupleRepair, ARepairThatFailsLosesThePeerAndNothingElse) {
  int received = 0, lost = 0, repaired = 0;
  for_seeds(60, [&](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = tuple_world();
    options.seed = seed;
    options.adapter_faults.xrc_error_in_1024 = uint32_t(30 + rng.below(200));
    options.adapter_faults.xrc_refusal_in_1024 = uint32_t(5 + rng.below(100));
    options.tunables.rdma_keepalive_ms = 5;
    options.tunables.rdma_timeout_ms = 1;
    // Not through World: the closing meeting cannot be held over a broken connection.
    Report report = World(options).run_unstarted([&](Machine::Rank& rank) {
      auto process = World::make_process(rank, std::make_shared<Driving>());
      EXPECT_FALSE(process->start());
      const bool good = bursts_until_lost(*process, seed, received);
      lost += !good;
      Side side(*process);
      char last = 0;  // neither goes before the other one has everything
      Request* out = side.p2p.isend(side.to(&last, 1, 7));
      Request* in = side.p2p.ireceive(side.from(&last, 1, 7));
      for (Request* request : {out, in}) {
        side.p2p.wait(*request);
        request->release();
      }
      repaired += good && process->progress().counters().tuple_repairs != 0;
    });
    EXPECT_TRUE(report.ok()) << report.failure;
  });
  if (!all_seeds()) return;
  EXPECT_GT(received, 1000);
  EXPECT_GT(lost, 10);
  EXPECT_GT(repaired, 3);
}

}  // namespace
}  // namespace tern::sim
