// A rank dies while others are in collectives: whose call succeeds has the right result. What another rank makes of its
// error must not arrive as data.
#include <gtest/gtest.h>

#include "sim/world.h"
#include "tests/sim/coll_model.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

/// Collectives until one fails, `mode` as given. A rank that has an error stays a little, so that the others see what
/// it has sent. Returns what was wrong; empty: nothing.
std::string live_on(Process& process, uint64_t seed, Mode mode, bool& failed) {
  constexpr uint64_t kLonger_ns = 1'000'000;
  ModelTypes types;
  for (uint64_t i = 0; process.clock().now_ns() < 1'000'000'000; ++i) {
    constexpr Operation kOperations[] = {Operation::allreduce,
                                         Operation::bcast,
                                         Operation::allgather,
                                         Operation::alltoall,
                                         Operation::reduce_scatter_block,
                                         Operation::scan};
    Plan plan(seed * 1000 + i, kOperations[(seed + i) % 6], process.world_size());
    plan.count = std::min<Count>(plan.count + 1, 3000);
    Participant part(plan, process.world_rank(), types);
    Request* request = nullptr;
    Error error = collective(process.world(), plan.operation, part.operands(), mode, request);
    if (request) {
      process.p2p().wait(*request);
      error = std::move(request->error);
      request->release();
    }
    if (error) {
      failed = true;
      const uint64_t end_ns = process.clock().now_ns() + kLonger_ns;
      while (process.clock().now_ns() < end_ns) process.progress().poll();
      return {};
    }
    if (std::string wrong = part.check(); !wrong.empty())
      return std::string(name_of(plan.operation)) + " of " + std::to_string(plan.count) + " units succeeds: " + wrong;
  }
  return {};
}

/// Several nodes, of which some are full and the last may not be.
WorldOptions few_nodes(Rng& rng, uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.ranks = uint32_t(3 + rng.below(5));
  options.ranks_per_node = uint32_t(1 + rng.below(3));
  options.limits = {20'000'000'000, 60'000'000};
  options.network.eager_bytes = size_t(64) << rng.below(8);
  return options;
}

void expect_no_wrong_result(const WorldOptions& options, uint64_t seed, Mode mode) {
  std::string wrong;
  bool failed = false;
  // The world ends with the first rank that is done.
  const Report report = World(options).run([&](Process& process) {
    const std::string mine = live_on(process, seed, mode, failed);
    if (!mine.empty() && wrong.empty()) wrong = "rank " + std::to_string(process.world_rank()) + ": " + mine;
    throw std::runtime_error("enough");
  });
  EXPECT_FALSE(report.ok());
  EXPECT_TRUE(failed);
  EXPECT_EQ(wrong, "") << "seed " << seed;
}

void lose_a_rank(uint64_t seed, Mode mode) {
  Rng rng(seed);
  WorldOptions options = few_nodes(rng, seed);
  options.faults.losses.push_back(
      {uint32_t(rng.below(options.ranks)), 500'000 + rng.below(3'000'000), 1 + rng.below(200'000)});
  expect_no_wrong_result(options, seed, mode);
}

/// All ranks of a node die at nearly one time, and nobody hears of it at once: by then, leaders and lanes are in use.
void lose_a_node(uint64_t seed, Mode mode) {
  Rng rng(seed * 7 + 1);
  WorldOptions options = few_nodes(rng, seed);
  options.ranks_per_node = uint32_t(2 + rng.below(3));
  options.ranks = options.ranks_per_node + uint32_t(1 + rng.below(8));
  const uint32_t nodes = (options.ranks + options.ranks_per_node - 1) / options.ranks_per_node;
  const uint32_t first = uint32_t(rng.below(nodes)) * options.ranks_per_node;
  const uint64_t when_ns = 1'000'000 + rng.below(4'000'000);
  for (uint32_t rank = first; rank < std::min(first + options.ranks_per_node, options.ranks); ++rank)
    options.faults.losses.push_back({rank, when_ns + rng.below(2000), 1 + rng.below(300'000)});
  expect_no_wrong_result(options, seed, mode);
}

TEST(CollectivesLost, Blocking) {
  for_seeds(40, [](uint64_t seed) { lose_a_rank(seed, Mode::blocking); });
}
TEST(CollectivesLost, NodesBlocking) {
  for_seeds(15, [](uint64_t seed) { lose_a_node(seed, Mode::blocking); });
}
TEST(CollectivesLost, NodesNonblocking) {
  for_seeds(15, [](uint64_t seed) { lose_a_node(seed, Mode::nonblocking); });
}
TEST(CollectivesLost, Nonblocking) {
  for_seeds(40, [](uint64_t seed) { lose_a_rank(seed, Mode::nonblocking); });
}

}  // namespace
}  // namespace tern::sim
