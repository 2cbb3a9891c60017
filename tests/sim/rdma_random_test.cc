// The random point-to-point programs (p2p_program.h) over the rdma path on simulated adapters, with few slots, little
// credit, small queue-pair caches, receiver-not-ready storms, lost greetings and everything else that goes wrong; and
// what becomes of a lost rank.
#include <gtest/gtest.h>

#include "fabric/rdma/rdma_path.h"
#include "tests/sim/p2p_program.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

WorldOptions random_world(Rng& rng, uint64_t seed, bool faults) {
  WorldOptions options;
  options.rdma = true;
  options.seed = seed;
  options.ranks = uint32_t(2 + rng.below(5));
  options.ranks_per_node = uint32_t(1 + rng.below(3));
  Tunables& tunables = options.tunables;
  tunables.rdma_keepalive_ms = 0;
  tunables.rdma_eager_bytes = int64_t(256 + rng.below(uint64_t{1} << (4 + rng.below(10))));
  tunables.rdma_receives = int64_t(16 + rng.below(200));
  tunables.rdma_sends = int64_t(8 + rng.below(100));
  tunables.rdma_window = int64_t(2 + rng.below(40));
  tunables.unexpected_credit_bytes = int64_t(4096 + rng.below(uint64_t{1} << (10 + rng.below(8))));
  AdapterModel& adapter = options.adapter;
  adapter.segment_bytes = uint32_t(256 << rng.below(8));
  adapter.queue_pair_cache = uint32_t(1 + rng.below(8));
  adapter.max_inline_bytes = uint32_t(rng.below(3) * 100);
  adapter.max_queue_depth = uint32_t(64 + rng.below(300));
  adapter.max_message_bytes = uint32_t(20'000 + rng.below(100'000));
  adapter.ordered_writes = rng.chance(1, 2);
  adapter.max_reads = uint32_t(1 + rng.below(8));
  options.limits.events = 50'000'000;
  if (!faults) return options;
  options.faults = Faults::random(rng);
  options.adapter_faults.storm_in_1024 = uint32_t(rng.below(2) * rng.below(50));
  options.adapter_faults.storm_ns = 1'000'000;
  options.adapter_faults.datagram_loss_in_1024 = uint32_t(rng.below(2) * rng.below(600));
  return options;
}

Report run_program(uint64_t seed, bool faults) {
  Rng rng(seed * 1'000'003 + faults + 77);
  WorldOptions options = random_world(rng, seed, faults);
  Plan plan = Plan::random(rng, options.ranks);
  std::vector<std::vector<Receipt>> receipts(options.ranks);
  std::vector<Actor*> actors(options.ranks);
  Report report = World(options).run([&](Process& process) {
    Actor actor(process, plan);
    actors[size_t(process.world_rank())] = &actor;
    actor.run();
    receipts[size_t(process.world_rank())] = std::move(actor.receipts());
    actors[size_t(process.world_rank())] = nullptr;
  });
  std::string open;
  for (Actor* actor : actors) {
    if (actor && report.deadlock) open += actor->describe();  // its stack is kept
  }
  EXPECT_TRUE(report.ok()) << report.failure << "\n" << open;
  if (report.ok()) check_receipts(plan, receipts);
  return report;
}

TEST(RdmaPath, RandomProgramsOnSoundAdapters) {
  for_seeds(80, [](uint64_t seed) { run_program(seed, false); });
}

TEST(RdmaPath, RandomProgramsWithFaults) {
  for_seeds(150, [](uint64_t seed) { run_program(seed, true); });
}

TEST(RdmaPath, TheSameSeedGivesTheSameRun) {
  for_seeds(10, [](uint64_t seed) {
    Report first = run_program(seed, true), second = run_program(seed, true);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
  });
}

}  // namespace
}  // namespace tern::sim
