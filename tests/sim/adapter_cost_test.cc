// What the simulated adapter charges, and to whom: the CPU for posting and polling only, the link for bytes, receivers'
// ports for everybody who meets there, the queue-pair cache for going from peer to peer, registration by the page.
#include <gtest/gtest.h>

#include "tests/sim/adapter_bench.h"

namespace tern::sim {
namespace {

using rdma::Verb;

Report run(WorldOptions options, const Machine::Body& body) {
  Machine machine(std::move(options));
  Report report = machine.run(body);
  EXPECT_TRUE(report.ok()) << report.failure;
  return report;
}

constexpr size_t kMegabyte = 1 << 20;

/// Ranks 1.. write a megabyte into rank 0's memory (or each its own peer's); how long the slowest takes.
uint64_t fan_in_ns(uint32_t senders, bool one_target) {
  WorldOptions options;
  options.ranks = one_target ? senders + 1 : 2 * senders;
  uint64_t slowest = 0;
  run(options, [&](Machine::Rank& rank) {
    AdapterBench bench(rank, kMegabyte);
    uint32_t me = rank.index();
    struct All {
      rdma::QueuePairAddress of[8];
    } mine;
    bool target = one_target ? me == 0 : me >= senders;
    std::vector<std::unique_ptr<rdma::QueuePair>> pairs;
    for (uint32_t i = 0; i < senders; ++i) {
      pairs.push_back(bench.make(bench.options()));
      mine.of[i] = pairs.back()->address();
    }
    auto all = bench.exchange(mine);
    auto targets = bench.exchange(bench.target());
    auto sender_rank = [&](uint32_t i) { return one_target ? i + 1 : i; };
    auto target_rank = [&](uint32_t i) { return one_target ? 0 : senders + i; };
    for (uint32_t i = 0; i < senders; ++i) {
      if (target && target_rank(i) == me) {
        EXPECT_FALSE(pairs[i]->connect(all[sender_rank(i)].of[0]));
      }
      if (!target && sender_rank(i) == me) {
        EXPECT_FALSE(pairs[0]->connect(all[target_rank(i)].of[i]));
      }
    }
    bench.fence();
    uint64_t begin = bench.strand.now_ns();
    if (!target) {
      uint32_t i = one_target ? me - 1 : me;
      EXPECT_EQ(bench.run(*pairs[0], work(Verb::write, bench.piece(0, kMegabyte), targets[target_rank(i)], 0)).status,
                rdma::Status::success);
      slowest = std::max(slowest, bench.strand.now_ns() - begin);
    }
    bench.fence();
  });
  return slowest;
}

TEST(AdapterCost, SendersThatMeetAtAPortShareIt) {
  uint64_t alone = fan_in_ns(1, true);
  uint64_t wire = kMegabyte * 1000 / NetworkModel().port_bytes_per_us;
  EXPECT_NEAR(double(alone), double(wire), 0.08 * double(wire));
  EXPECT_NEAR(double(fan_in_ns(4, true)), 4.0 * double(wire), 0.2 * double(wire));
  EXPECT_NEAR(double(fan_in_ns(4, false)), double(wire), 0.08 * double(wire))
      << "different ports do not disturb each other";
}

TEST(AdapterCost, DataMoveWhileTheRankComputes) {
  run({}, [](Machine::Rank& rank) {
    AdapterBench bench(rank, kMegabyte);
    auto pair = join(bench, 1 - int(rank.index()), bench.options());
    auto targets = bench.exchange(bench.target());
    if (rank.index() == 0) {
      const AdapterModel& model = rank.machine.options().adapter;
      uint64_t begin = bench.strand.now_ns();
      bench.post(*pair, work(Verb::write, bench.piece(0, kMegabyte), targets[1], 0));
      EXPECT_EQ(bench.strand.now_ns() - begin, model.post_ns + model.doorbell_ns);
      bench.strand.charge_ns(1'000'000);  // some ten times the transfer
      begin = bench.strand.now_ns();
      bench.wait();
      EXPECT_EQ(bench.strand.now_ns() - begin, model.poll_ns + model.completion_ns) << "it was over long ago";
    }
    bench.fence();
  });
}

TEST(AdapterCost, APostOfManyRingsOnce) {
  run({}, [](Machine::Rank& rank) {
    AdapterBench bench(rank);
    auto pair = join(bench, 1 - int(rank.index()), bench.options());
    auto targets = bench.exchange(bench.target());
    if (rank.index() == 0) {
      const AdapterModel& model = rank.machine.options().adapter;
      rdma::Piece piece = bench.piece(0, 8);
      std::vector<rdma::WorkRequest> many(10, work(Verb::write, piece, targets[1], 0));
      for (auto& one : many) one.pieces = &piece;
      uint64_t begin = bench.strand.now_ns();
      EXPECT_EQ(pair->post(many), 10u);
      EXPECT_EQ(bench.strand.now_ns() - begin, 10 * model.post_ns + model.doorbell_ns);
      for (int i = 0; i < 10; ++i) bench.wait();
    }
    bench.fence();
  });
}

/// Rank 0 writes a word to `peers` others in turns; how long one takes.
uint64_t round_robin_ns(uint32_t peers, uint64_t& misses) {
  WorldOptions options;
  options.ranks = peers + 1;
  options.adapter.queue_pair_cache = 4;
  uint64_t each = 0;
  run(options, [&](Machine::Rank& rank) {
    AdapterBench bench(rank, 4096);
    struct All {
      rdma::QueuePairAddress of[8];
    } mine;
    std::vector<std::unique_ptr<rdma::QueuePair>> pairs;
    for (uint32_t i = 0; i < (rank.index() == 0 ? peers : 1); ++i) {
      pairs.push_back(bench.make(bench.options()));
      mine.of[i] = pairs.back()->address();
    }
    auto all = bench.exchange(mine);
    auto targets = bench.exchange(bench.target());
    for (uint32_t i = 0; i < pairs.size(); ++i) {
      EXPECT_FALSE(pairs[i]->connect(rank.index() == 0 ? all[i + 1].of[0] : all[0].of[rank.index() - 1]));
    }
    bench.fence();
    if (rank.index() == 0) {
      for (uint32_t i = 0; i < peers; ++i)
        bench.run(*pairs[i], work(Verb::write, bench.piece(0, 8), targets[i + 1], 0));
      uint64_t begin = bench.strand.now_ns(), missed = rank.machine.adapters().node(0).cache.misses();
      constexpr uint32_t kRounds = 20;
      for (uint32_t round = 0; round < kRounds; ++round) {
        for (uint32_t i = 0; i < peers; ++i)
          bench.run(*pairs[i], work(Verb::write, bench.piece(0, 8), targets[i + 1], 0));
      }
      each = (bench.strand.now_ns() - begin) / (kRounds * peers);
      misses = (rank.machine.adapters().node(0).cache.misses() - missed) / kRounds;
    }
    bench.fence();
  });
  return each;
}

TEST(AdapterCost, MorePeersThanCachedQueuePairsMissOnEveryTurn) {
  uint64_t few_misses = 0, many_misses = 0;
  uint64_t few = round_robin_ns(4, few_misses), many = round_robin_ns(5, many_misses);
  EXPECT_EQ(few_misses, 0u);
  EXPECT_EQ(many_misses, 5u) << "one a write; its acknowledgement finds it there";
  EXPECT_EQ(many - few, AdapterModel().cache_miss_ns);
}

TEST(AdapterCost, RegistrationIsPaidByThePageAndDeregistrationOnce) {
  run({}, [](Machine::Rank& rank) {
    AdapterBench bench(rank);
    const AdapterModel& model = rank.machine.options().adapter;
    for (size_t pages : {size_t{0}, size_t{10}, size_t{15}}) {
      std::unique_ptr<rdma::MemoryRegion> region;
      uint64_t begin = bench.strand.now_ns();
      EXPECT_FALSE(bench.hca->register_memory(bench.memory.data(), pages * 4096, {}, region));
      EXPECT_EQ(bench.strand.now_ns() - begin, model.register_ns + pages * model.register_page_ns);
      begin = bench.strand.now_ns();
      region.reset();
      EXPECT_EQ(bench.strand.now_ns() - begin, model.deregister_ns);
    }
  });
}

/// One-way time of a small write through DC, to one target again and again or to two in turns.
uint64_t dc_ns(uint32_t targets) {
  WorldOptions options;
  options.ranks = 3;
  uint64_t each = 0;
  run(options, [&](Machine::Rank& rank) {
    AdapterBench bench(rank, 4096);
    std::unique_ptr<rdma::SharedReceiveQueue> srq;
    EXPECT_FALSE(bench.hca->make_srq({8, 1, false, nullptr}, srq));
    auto chosen = bench.options(rdma::QueuePairKind::dc_target);
    chosen.srq = srq.get();
    auto target = bench.make(chosen);
    auto initiator = bench.make(bench.options(rdma::QueuePairKind::dc_initiator));
    auto all = bench.exchange(target->address());
    auto memory = bench.exchange(bench.target());
    std::unique_ptr<rdma::AddressHandle> handles[3];
    for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(bench.hca->make_address_handle(all[i].port, handles[i]));
    if (rank.index() == 0) {
      auto write = [&](size_t to) {
        Work request = work(Verb::write, bench.piece(0, 8), memory[to], 0);
        request.address_handle = handles[to].get();
        request.remote_number = all[to].number;
        EXPECT_EQ(bench.run(*initiator, request).status, rdma::Status::success);
      };
      write(1);
      uint64_t begin = bench.strand.now_ns();
      for (uint32_t i = 1; i <= 20; ++i) write(1 + i % targets);
      each = (bench.strand.now_ns() - begin) / 20;
    }
    bench.fence();
  });
  return each;
}

TEST(AdapterCost, DcPaysForTurningToAnotherTarget) {
  const AdapterModel model;
  uint64_t same = dc_ns(1), turning = dc_ns(2);
  EXPECT_GE(turning - same, 2 * model.dc_connect_ns);
  EXPECT_LE(turning - same, 3 * model.dc_connect_ns + 200) << "its end and its beginning, and their packets";
}

}  // namespace
}  // namespace tern::sim
