// Random traffic between simulated adapters with all faults, and what unordered writes show.
#include <gtest/gtest.h>

#include "tests/sim/adapter_bench.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

using rdma::Status;
using rdma::Verb;

Report run(WorldOptions options, const Machine::Body& body) {
  Machine machine(std::move(options));
  Report report = machine.run(body);
  EXPECT_TRUE(report.ok()) << report.failure;
  return report;
}

// Without ordered_writes the last byte may be there before the first: what FIN elimination must not rely on.
TEST(Adapter, UnorderedWritesShowTheirEndFirstSometimes) {
  int early = 0;
  for_seeds(40, [&](uint64_t seed) {
    for (bool ordered : {true, false}) {
      WorldOptions options;
      options.seed = seed;
      options.adapter.ordered_writes = ordered;
      options.adapter.relaxed_ns = 5000;
      run(options, [&](Machine::Rank& rank) {
        AdapterBench bench(rank);
        auto pair = join(bench, 1 - int(rank.index()), bench.options());
        auto targets = bench.exchange(bench.target());
        EXPECT_EQ(bench.hca->capabilities().ordered_writes, ordered);
        if (rank.index() == 0) {
          bench.fill(0, 4000, 100);
          EXPECT_EQ(bench.run(*pair, work(Verb::write, bench.piece(0, 4000), targets[1], 0)).status, Status::success);
        } else {
          std::byte last = std::byte(uint8_t(100 + 3999 * 7));
          ASSERT_NE(last, std::byte{});
          while (bench.memory[3999] != last) {
            bench.strand.charge_ns(50);
            bench.hca->observe();
          }
          bool whole = bench.filled(0, 4000, 100);
          EXPECT_TRUE(whole || !ordered);
          early += !whole;
        }
        bench.fence();
        bench.hca->observe();
        EXPECT_TRUE(bench.filled(0, 4000, 100));
      });
    }
  });
  EXPECT_GT(early, 0);
}

// Random traffic over several queue pairs with all faults: exactly once, in order per queue pair, bytes exact.
Report storm(uint64_t seed) {
  Rng rng(seed * 31);
  WorldOptions options;
  options.seed = seed;
  options.ranks = uint32_t(2 + rng.below(3));
  options.ranks_per_node = uint32_t(1 + rng.below(2));
  options.faults = Faults::random(rng);
  options.adapter.segment_bytes = uint32_t(64 << rng.below(8));
  options.adapter.queue_pair_cache = uint32_t(1 + rng.below(8));
  options.adapter.ordered_writes = rng.chance(1, 2);
  options.adapter_faults.storm_in_1024 = uint32_t(rng.below(100));
  options.adapter_faults.storm_ns = 20'000;
  return run(options, [&](Machine::Rank& rank) {
    constexpr size_t kRoom = 4096;
    constexpr uint64_t kMessages = 12;
    AdapterBench bench(rank, 2 * kRoom * kMessages * 4);
    uint32_t ranks = uint32_t(bench.launcher->size());
    auto chosen = bench.options();
    chosen.rnr_wait_ns = 5000;
    struct All {
      rdma::QueuePairAddress of[4];
    } mine;
    std::vector<std::unique_ptr<rdma::QueuePair>> pairs;
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      pairs.push_back(bench.make(chosen));
      mine.of[peer] = pairs.back()->address();
    }
    auto all = bench.exchange(mine);
    auto targets = bench.exchange(bench.target());
    for (uint32_t peer = 0; peer < ranks; ++peer) EXPECT_FALSE(pairs[peer]->connect(all[peer].of[rank.index()]));
    Rng mind(seed * 1000 + rank.index());
    auto in = [&](uint32_t peer, uint64_t i) { return (peer * kMessages + i) * kRoom; };
    size_t out_begin = kRoom * kMessages * 4;
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      for (uint64_t i = 0; i < kMessages; ++i)
        bench.post_receive(*pairs[peer], (uint64_t{1} << 32) | (peer << 8) | i, bench.piece(in(peer, i), kRoom));
    }
    bench.fence();
    auto size_of = [](uint32_t from, uint32_t to, uint64_t i) {
      return size_t(8 + (from * 977 + to * 331 + i * 593) % (kRoom - 8));
    };
    for (uint64_t i = 0; i < kMessages; ++i) {
      for (uint32_t peer = 0; peer < ranks; ++peer) {
        size_t at = out_begin + in(peer, i), bytes = size_of(rank.index(), peer, i);
        bench.fill(at, bytes, int(rank.index() * 50 + peer * 20 + i));
        Work request = work(Verb::send, bench.piece(at, bytes), (peer << 8) | i);
        if (i % 3 == 1) {
          request =
              work(Verb::write_immediate, bench.piece(at, bytes), targets[peer], in(rank.index(), i), (peer << 8) | i);
        }
        request.immediate = uint32_t(i);
        bench.post(*pairs[peer], request);
        if (mind.chance(1, 4)) bench.strand.charge_ns(mind.below(5000));
      }
    }
    std::vector<uint64_t> sent(ranks), received(ranks);
    for (uint64_t left = 2 * ranks * kMessages; left > 0; --left) {
      rdma::Completion over = bench.wait();
      ASSERT_EQ(over.status, Status::success) << status_name(over.status);
      uint32_t peer = uint32_t(over.id >> 8) & 0xff;
      uint64_t i = over.id & 0xff;
      if ((over.id >> 32) == 0) {
        EXPECT_EQ(i, sent[peer]++);
        continue;
      }
      EXPECT_EQ(i, received[peer]++);
      EXPECT_EQ(over.bytes, size_of(peer, rank.index(), i));
      EXPECT_TRUE(bench.filled(in(peer, i), over.bytes, int(peer * 50 + rank.index() * 20 + i)));
    }
    bench.fence();
  });
}

TEST(Adapter, RandomTrafficWithFaultsIsExactAndRepeatable) {
  for_seeds(60, [](uint64_t seed) {
    Report first = storm(seed);
    if (seed % 10 == 0) {
      Report second = storm(seed);
      EXPECT_EQ(first.trace_hash, second.trace_hash);
      EXPECT_EQ(first.virtual_ns, second.virtual_ns);
    }
  });
}

}  // namespace
}  // namespace tern::sim
