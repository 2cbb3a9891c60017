// The random point-to-point programs (p2p_program.h) over two paths at once, of which the better one is lost again and
// again, at any moment: every message arrives once, whole and in its order, and the better path is taken up again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>

#include "tests/sim/p2p_program.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

struct Totals {
  uint64_t failovers = 0, failbacks = 0, resent = 0;
  void record() const {
    testing::Test::RecordProperty("failovers", std::to_string(failovers));
    testing::Test::RecordProperty("failbacks", std::to_string(failbacks));
    testing::Test::RecordProperty("resent", std::to_string(resent));
  }
};

/// Which paths there are: RDMA and UDP, or TCP and one of them.
enum class Paths { rdma_udp, with_tcp };

WorldOptions random_world(Rng& rng, uint64_t seed, bool faults, Paths paths) {
  WorldOptions options;
  options.rdma = options.udp = true;
  options.udp_first = rng.chance(1, 3);
  if (paths == Paths::with_tcp) {
    options.tcp = true;
    (seed % 2 ? options.rdma : options.udp) = false;
    options.tcp_first = rng.chance(1, 2);
    options.streams.networks = uint32_t(1 + rng.below(2));
    options.tunables.tcp_eager_bytes = int64_t(rng.below(uint64_t{1} << (6 + rng.below(11))));
    options.tunables.tcp_stripe_bytes = 65536;
    if (faults) {
      options.stream_faults.drop_in_1024 = uint32_t(rng.below(30));
      options.stream_faults.reset_in_65536 = uint32_t(rng.below(1000));
      options.stream_faults.partial_in_1024 = uint32_t(rng.below(300));
    }
  }
  options.seed = seed;
  options.ranks = uint32_t(2 + rng.below(3));
  Tunables& tunables = options.tunables;
  tunables.rdma_keepalive_ms = 0;
  tunables.rdma_eager_bytes = int64_t(256 + rng.below(uint64_t{1} << (4 + rng.below(10))));
  tunables.rdma_hybrid_bytes = rng.chance(2, 3) ? tunables.rdma_eager_bytes + int64_t(rng.below(20'000)) : 0;
  constexpr const char* kModes[] = {"customised", "customised", "customised", "rput", "rget", "stream"};
  tunables.rendezvous = kModes[rng.below(std::size(kModes))];
  tunables.sender_rendezvous = rng.chance(1, 2) ? "read" : "write";
  tunables.rdma_receives = int64_t(16 + rng.below(200));
  tunables.rdma_sends = int64_t(8 + rng.below(100));
  tunables.rdma_window = int64_t(2 + rng.below(40));
  tunables.unexpected_credit_bytes = int64_t(4096 + rng.below(uint64_t{1} << (10 + rng.below(8))));
  tunables.udp_eager_bytes = int64_t(rng.below(uint64_t{1} << (6 + rng.below(11))));
  tunables.path_failback_ms = 1;
  options.adapter.ordered_writes = rng.chance(1, 2);
  options.limits.events = 50'000'000;
  options.limits.virtual_ns = 3'600'000'000'000;
  if (faults) options.faults = Faults::random(rng);
  options.faults.cut_in_65536 = uint32_t(1) << rng.below(12);
  return options;
}

Report run_program(uint64_t seed, bool faults, Totals& totals, Paths paths = Paths::rdma_udp) {
  Rng rng(seed * 1'000'003 + faults + 55);
  WorldOptions options = random_world(rng, seed, faults, paths);
  Plan plan = Plan::random(rng, options.ranks, {size_t(options.tunables.rdma_eager_bytes)});
  const char* tcp = options.tcp_first ? "tcp first " : options.tcp ? "tcp last " : "";
  SCOPED_TRACE(tcp + std::string(options.udp_first ? "udp, rdma " : "rdma, udp ") + options.tunables.rendezvous + ", " +
               options.tunables.sender_rendezvous);
  return run_plan(options, plan, [&](Process& process) {
    totals.failovers += process.counters().lane_failovers;
    totals.failbacks += process.counters().lane_failbacks;
    totals.resent += process.counters().lane_resent;
  });
}

TEST(Lanes, RandomProgramsWhileTheBetterPathIsCut) {
  Totals totals;
  for_seeds(300, [&](uint64_t seed) { run_program(seed, false, totals); });
  totals.record();
  if (!all_seeds()) return;
  EXPECT_GT(totals.failovers, 0u);
  EXPECT_GT(totals.resent, 0u);
  EXPECT_GT(totals.failbacks, 0u);
}
TEST(Lanes, RandomProgramsWhileTheBetterPathIsCutAndEverythingElseGoesWrong) {
  Totals totals;
  for_seeds(300, [&](uint64_t seed) { run_program(seed, true, totals); });
  totals.record();
  if (!all_seeds()) return;
  EXPECT_GT(totals.failovers, 0u);
}

TEST(Lanes, RandomProgramsWhereOneOfThePathsIsTcp) {
  Totals totals;
  for_seeds(50, [&](uint64_t seed) { run_program(seed, false, totals, Paths::with_tcp); });
  totals.record();
  if (!all_seeds()) return;
  EXPECT_GT(totals.failovers, 0u);
  EXPECT_GT(totals.resent, 0u);
  EXPECT_GT(totals.failbacks, 0u);
}
TEST(Lanes, RandomProgramsWhereOneOfThePathsIsTcpAndEverythingElseGoesWrong) {
  Totals totals;
  for_seeds(50, [&](uint64_t seed) { run_program(seed, true, totals, Paths::with_tcp); });
  totals.record();
  if (!all_seeds()) return;
  EXPECT_GT(totals.failovers, 0u);
}

TEST(Lanes, TheSameSeedGivesTheSameRun) {
  for_seeds(10, [](uint64_t seed) {
    Totals totals;
    Report first = run_program(seed, true, totals), second = run_program(seed, true, totals);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
  });
}

}  // namespace
}  // namespace tern::sim
