// MPI programs whose communicators ask for tuple queues by info, in the simulated world: tests/mpi/p2p_tuples.c, over
// adapters with XRC, adapters without, and networks without adapters; with faults.
#include <gtest/gtest.h>

#include "capi/simulated/run_mpi.h"
#include "tests/sim/seeds.h"

extern "C" int p2p_tuples_main(int argc, char** argv);  // the program's main

namespace tern::sim {
namespace {

WorldOptions world_of(uint64_t seed) {
  Rng rng(seed * 7919);
  WorldOptions options;
  options.seed = seed;
  options.ranks = uint32_t(2 + rng.below(3));
  options.rdma = true;
  options.tunables.rdma_keepalive_ms = 0;
  options.tunables.tuple_copy_bytes = rng.chance(1, 2) ? 0 : 8192;
  options.tunables.tuple_ways = int64_t(1 + rng.below(4));
  options.tunables.tuple_wildcards = 1'000'000;
  options.limits.events = 50'000'000;
  return options;
}

void expect_runs(const WorldOptions& options) {
  Report report = run_mpi(options, p2p_tuples_main);
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(MpiTuples, OverAdaptersWithQueues) {
  for_seeds(6, [](uint64_t seed) { expect_runs(world_of(seed)); });
}

TEST(MpiTuples, WithFaults) {
  for_seeds(6, [](uint64_t seed) {
    WorldOptions options = world_of(seed);
    Rng rng(seed * 31 + 5);
    options.faults = Faults::random(rng);
    options.adapter_faults.xrc_error_in_1024 = uint32_t(rng.below(40));
    options.adapter_faults.storm_in_1024 = uint32_t(rng.below(30));
    options.adapter_faults.storm_ns = 1'000'000;
    options.tunables.rdma_timeout_ms = 2;
    expect_runs(options);
  });
}

TEST(MpiTuples, EveryCommunicator) {
  for_seeds(4, [](uint64_t seed) {
    WorldOptions options = world_of(seed);
    options.tunables.rendezvous = "tupleq";
    expect_runs(options);
  });
}

TEST(MpiTuples, WhereThereAreNoQueues) {
  for_seeds(4, [](uint64_t seed) {
    WorldOptions options = world_of(seed);
    if (seed % 2 == 0) options.adapter.xrc = false;
    else options.rdma = false;
    if (seed % 3 == 0) options.tunables.rendezvous = "tupleq";
    expect_runs(options);
  });
}

}  // namespace
}  // namespace tern::sim
