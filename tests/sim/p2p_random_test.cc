// Random point-to-point programs over hundreds of seeds, with faults (p2p_program.h has the checkers).
#include <gtest/gtest.h>

#include <iterator>

#include "p2p/protocols/protocol.h"
#include "tests/sim/p2p_program.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

WorldOptions random_world(Rng& rng, uint64_t seed, bool faults) {
  WorldOptions options;
  options.seed = seed;
  options.ranks = uint32_t(1 + rng.below(6));
  options.ranks_per_node = uint32_t(1 + rng.below(3));
  if (faults) options.faults = Faults::random(rng);
  NetworkModel& network = options.network;
  network.eager_bytes = 40 + rng.below(uint64_t{1} << (5 + rng.below(10)));
  network.packet_bytes = size_t{1} << (5 + rng.below(10));
  network.window_bytes = 256 + rng.below(uint64_t{1} << (9 + rng.below(9)));
  network.announced_in_256 = uint32_t(rng.below(257));
  network.gathered_in_256 = uint32_t(rng.below(257));
  network.arrivals_per_poll = uint32_t(rng.below(6));
  network.get = NetworkModel::Get(rng.below(3));
  network.put = rng.chance(3, 4);
  network.ordered_writes = rng.chance(1, 2);
  network.put_astray_ns = uint64_t{1} << rng.below(18);
  network.piece_bytes = rng.chance(2, 3) ? 100 + rng.below(10'000) : 0;
  network.hybrid_bytes = rng.chance(2, 3) ? network.eager_bytes + rng.below(20'000) : 0;
  constexpr const char* kModes[] = {"customised", "customised", "customised", "customised", "rput", "rget", "stream"};
  options.tunables.rendezvous = kModes[rng.below(std::size(kModes))];
  options.tunables.sender_rendezvous = rng.chance(1, 2) ? "read" : "write";
  options.tunables.hybrid_buffers = int64_t(rng.below(12));
  options.tunables.unexpected_credit_bytes = int64_t(4096 + rng.below(uint64_t{1} << (10 + rng.below(8))));
  options.limits.events = 50'000'000;
  return options;
}

ProtocolCounters total_counters;  // over all programs

Report run_program(uint64_t seed, bool faults) {
  Rng rng(seed * 1'000'003 + faults);
  WorldOptions options = random_world(rng, seed, faults);
  Plan plan = Plan::random(rng, options.ranks, {options.network.eager_bytes, options.network.hybrid_bytes});
  return run_plan(options, plan, [](Process& process) {
    total_counters += process.p2p().report().counters();
    EXPECT_EQ(process.p2p().report().open_announcements(), 0u);
  });
}

TEST(PointToPoint, RandomProgramsOnAQuietNetwork) {
  for_seeds(120, [](uint64_t seed) { run_program(seed, false); });
}

TEST(PointToPoint, RandomProgramsWithFaults) {
  for_seeds(300, [](uint64_t seed) { run_program(seed, true); });
}

// The programs above are of use only if they meet every protocol and every special case of them.
TEST(PointToPoint, RandomProgramsUseEveryProtocol) {
  if (!all_seeds()) GTEST_SKIP() << "not all seeds were run";
  expect_every_protocol(total_counters);
  EXPECT_GT(total_counters.copied_out, 10u);
}

TEST(PointToPoint, TheSameSeedGivesTheSameRun) {
  for_seeds(10, [](uint64_t seed) {
    Report first = run_program(seed, true), second = run_program(seed, true);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
  });
}

}  // namespace
}  // namespace tern::sim
