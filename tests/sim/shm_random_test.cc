// Random point-to-point programs through the shared memory of real ranks (ShmPath: rings, spill cells, copy locks, lent
// memory, copies between the ranks' memories), in the world, with faults (p2p_program.h has the checkers).
#include <gtest/gtest.h>

#include <array>
#include <iterator>
#include <vector>

#include "p2p/protocols/protocol.h"
#include "tests/sim/lost_rank.h"
#include "tests/sim/p2p_program.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

WorldOptions random_world(Rng& rng, uint64_t seed, bool faults) {
  WorldOptions options;
  options.seed = seed;
  options.shm = true;
  options.ranks = uint32_t(2 + rng.below(5));
  options.ranks_per_node = rng.chance(2, 3) ? options.ranks : uint32_t(1 + rng.below(options.ranks));
  if (faults) options.faults = Faults::random(rng);
  SharedMemoryModel& memory = options.shared_memory;
  memory.ring_bytes = size_t{4096} << rng.below(6);
  memory.spill_cells = rng.chance(1, 4) ? 0 : uint32_t(rng.below(300));
  memory.refuse_in_8 = rng.chance(1, 4) ? uint32_t(rng.below(8)) : 0;
  memory.pause_in_8 = uint32_t(rng.below(9));
  Tunables& tunables = options.tunables;
  tunables.shm_eager_bytes = int64_t(40 + rng.below(uint64_t{1} << (5 + rng.below(9))));
  tunables.shm_cma = !rng.chance(1, 6);
  tunables.shm_get_bytes = rng.chance(1, 3) ? int64_t(rng.below(50'000)) : 0;
  tunables.shm_hybrid_bytes = int64_t(rng.below(30'000));
  constexpr const char* kModes[] = {"customised", "customised", "customised", "customised", "rput", "rget", "stream"};
  tunables.rendezvous = kModes[rng.below(std::size(kModes))];
  tunables.sender_rendezvous = rng.chance(1, 2) ? "read" : "write";
  tunables.hybrid_buffers = int64_t(rng.below(12));
  tunables.unexpected_credit_bytes = int64_t(4096 + rng.below(uint64_t{1} << (10 + rng.below(8))));
  options.limits.events = 50'000'000;
  return options;
}

// Over all programs.
ProtocolCounters total_counters;
uint64_t fetches = 0;

Report run_program(uint64_t seed, bool faults) {
  Rng rng(seed * 1'000'003 + faults);
  WorldOptions options = random_world(rng, seed, faults);
  const size_t eager = std::min<size_t>(size_t(options.tunables.shm_eager_bytes), options.shared_memory.ring_bytes / 4);
  Plan plan = Plan::random(rng, options.ranks, {eager, size_t(options.tunables.shm_hybrid_bytes)});
  return run_plan(options, plan, [](Process& process) {
    total_counters += process.p2p().report().counters();
    fetches += process.progress().counters().shm_fetches;
    EXPECT_EQ(process.p2p().report().open_announcements(), 0u);
  });
}

TEST(SharedMemory, RandomPrograms) {
  for_seeds(60, [](uint64_t seed) { run_program(seed, false); });
}

TEST(SharedMemory, RandomProgramsWithFaults) {
  for_seeds(200, [](uint64_t seed) { run_program(seed, true); });
}

// The programs above are of use only if they meet every protocol and every special case. (Puts of shared memory are
// complete at once, so nothing crosses them and no FIN is saved.)
TEST(SharedMemory, RandomProgramsUseEveryProtocol) {
  if (!all_seeds()) GTEST_SKIP() << "not all seeds were run";
  for (size_t i = 0; i < kProtocolCount; ++i)
    EXPECT_TRUE(Protocol(i) == Protocol::tuple || total_counters.sent[i] > 10) << kProtocolNames[i];
  for (size_t i = 0; i < kArrivalCount; ++i) EXPECT_GT(total_counters.arrivals(Arrival(i)), 10u) << kArrivalNames[i];
  EXPECT_GT(total_counters.withdrawn, 10u);
  EXPECT_GT(total_counters.no_buffer, 10u);
  EXPECT_GT(total_counters.copied_out, 10u);
  EXPECT_GT(fetches, 100u);
}

TEST(SharedMemory, TheSameSeedGivesTheSameRun) {
  for_seeds(10, [](uint64_t seed) {
    Report first = run_program(seed, true), second = run_program(seed, true);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
  });
}

// Bursts of messages both ways, more announcements than a ring holds: they spill, return to the ring, and keep their
// order.
TEST(SharedMemory, BurstsKeepTheirOrder) {
  uint64_t spilled = 0;
  for_seeds(60, [&](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = random_world(rng, seed, seed % 2 == 1);
    options.ranks = options.ranks_per_node = 2;
    options.shared_memory.spill_cells = uint32_t(rng.below(600));
    options.tunables.shm_eager_bytes = 64;
    const uint64_t rounds = 1 + rng.below(4), plan = rng.next();
    const Report report = World(options).run([&](Process& process) {
      constexpr uint64_t kContext = uint64_t{1} << 2, kMost = 400, kWords = 16;
      PredefinedTypes types;
      const Datatype& byte = types.get(type_id::kByte);
      PointToPoint& p2p = process.p2p();
      const int me = process.world_rank(), other = 1 - me;
      std::vector<std::array<uint64_t, kWords>> data(kMost);
      Rng bursts(plan);  // both ranks draw alike
      for (uint64_t round = 0; round < rounds; ++round) {
        const uint64_t lengths[] = {bursts.below(kMost), bursts.below(kMost)};
        std::vector<Request*> sends;
        for (uint64_t i = 0; i < lengths[me]; ++i) {
          data[i].fill(round * kMost + i);
          const Count bytes = i % 3 == 0 ? 8 : Count(kWords * 8);  // the longer ones are announced
          sends.push_back(p2p.isend({&data[i], bytes, &byte, PeerId(other), me, 1, kContext, SendMode::standard}));
        }
        for (uint64_t i = 0; i < lengths[other]; ++i) {
          std::array<uint64_t, kWords> got{};
          Status status;
          EXPECT_FALSE(p2p.receive({&got, sizeof got, &byte, PeerId(other), other, 1, kContext}, status));
          EXPECT_EQ(got[0], round * kMost + i);
          EXPECT_EQ(got[kWords - 1], i % 3 == 0 ? 0 : got[0]);
        }
        for (Request* send : sends) {
          p2p.wait(*send);
          EXPECT_FALSE(send->error);
          send->release();
        }
      }
      p2p.progress().wait_until([&] { return p2p.quiet(); });
      spilled += process.progress().counters().shm_spilled;
    });
    EXPECT_TRUE(report.ok()) << report.failure;
  });
  EXPECT_TRUE(!all_seeds() || spilled > 500) << spilled;
}

// A rank dies: the others learn of it, and what it has sent before is there.
TEST(SharedMemory, ARankDies) {
  for_seeds(20, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = random_world(rng, seed, seed % 2 == 1);
    options.ranks = options.ranks_per_node = 3;
    options.faults.losses = {{1, 3'000'000 + rng.below(3'000'000), rng.below(200'000)}};
    const Report report =
        World(options).run([](Process& process) { live_through_a_death(process, "on this node has ended"); });
    EXPECT_TRUE(report.ok()) << report.failure;
  });
}

}  // namespace
}  // namespace tern::sim
