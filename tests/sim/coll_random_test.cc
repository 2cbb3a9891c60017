// Every algorithm of every collective against the naive model (coll_model.h): drawn ranks, sizes, datatypes, operators,
// in place, intercommunicators; blocking, nonblocking (several at once) and persistent; over a network with faults.
#include <gtest/gtest.h>

#include "coll/algorithms.h"
#include "sim/world.h"
#include "tests/sim/coll_model.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

WorldOptions options_for(uint64_t seed, int ranks) {
  Rng rng(seed);
  WorldOptions options;
  options.ranks = uint32_t(ranks);
  options.ranks_per_node = uint32_t(1 + rng.below(4));
  options.seed = seed;
  options.limits = {2'000'000'000, 30'000'000};
  options.faults = Faults::random(rng);
  options.network.eager_bytes = size_t(64) << rng.below(8);
  options.network.packet_bytes = std::max<size_t>(2048, options.network.eager_bytes);  // fewer events, still streams
  options.network.get = rng.chance(1, 2) ? NetworkModel::Get::adapter : NetworkModel::Get::none;
  options.network.announced_in_256 = uint32_t(rng.below(128));
  options.network.gathered_in_256 = uint32_t(rng.below(128));
  options.shm = rng.chance(1, 3);
  options.shared_memory.ring_bytes = size_t{4096} << rng.below(5);
  return options;
}

/// The communicator that plans run on: the world, or an intercommunicator of its first `left` ranks and the
/// others.
struct TestCommunicator {
  TestCommunicator(Process& process, int left) {
    int ranks = process.world_size(), me = process.world_rank();
    auto group = [&](int first, int size) { return Group::strided(PeerId(me), PeerId(first), 1, size); };
    Ref<Group> low = group(0, left == 0 ? ranks : left), high;
    if (left != 0) high = group(left, ranks - left);
    bool in_low = left == 0 || me < left;
    communicator = Ref<Communicator>::adopt(
        new Communicator(process.environment(), uint64_t(1000 + left) << 2, in_low ? low : high, in_low ? high : low));
  }
  Ref<Communicator> communicator;
};

void expect_good(const Participant& participant, const std::string& what) {
  std::string wrong = participant.check();
  if (!wrong.empty()) throw std::runtime_error(what + ": " + wrong);
}

void expect_no_error(const Error& error, const std::string& what) {
  if (error) throw std::runtime_error(what + ": " + std::string(error.text()));
}

/// Any placement, whatever the ranks' real nodes are: results do not depend on it. Of the seed; in blocks, round robin,
/// or without order; even and uneven nodes; several of them.
std::unique_ptr<Levels> draw_levels(uint64_t seed, int ranks) {
  Rng rng(seed * 31 + 7);
  const uint64_t nodes = 2 + rng.below(uint64_t(std::max(1, ranks - 1))), kind = rng.below(4);
  std::vector<uint64_t> names;
  uint64_t node = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (kind == 0) node = uint64_t(rank) * nodes / uint64_t(ranks);
    else if (kind == 1) node = uint64_t(rank) % nodes;
    else if (kind == 2) node = rng.below(nodes);
    else if (rank != 0 && rng.chance(1, 3)) ++node;
    names.push_back(node);
  }
  return std::make_unique<Levels>(names);
}

/// Runs a list of plans on one communicator in the three modes.
void run_plans(Process& process, const std::vector<Plan>& plans, int left, const Algorithm* forced) {
  ModelTypes types;
  TestCommunicator comm(process, left);
  Communicator& communicator = *comm.communicator;
  if (left == 0 && (!forced || forced->needs & Algorithm::kLevels)) {
    CollectiveEnvironment& environment = CollectiveEnvironment::of(communicator);
    environment.set_levels(draw_levels(plans[0].seed, process.world_size()));
    environment.part_bytes = size_t{1} << (plans[0].seed % 12);  // from one lane to all
  }
  if (forced) CollectiveEnvironment::of(communicator).selection.force({forced});
  int me = process.world_rank();
  std::vector<std::unique_ptr<Participant>> parts;
  for (const Plan& plan : plans) parts.push_back(std::make_unique<Participant>(plan, me, types));
  auto name = [&](size_t i, const char* mode) {
    return std::string(mode) + " " + name_of(plans[i].operation) + (forced ? std::string(" ") + forced->name : "") +
           " of " + std::to_string(plans[i].count) + " units, root " + std::to_string(plans[i].root) +
           (plans[i].in_place ? ", in place" : "") + (plans[i].commutative ? "" : ", ordered") + ", type " +
           std::to_string(plans[i].reduction_type);
  };
  Request* none = nullptr;
  for (size_t i = 0; i < plans.size(); ++i) {
    expect_no_error(collective(communicator, plans[i].operation, parts[i]->operands(), Mode::blocking, none),
                    name(i, "blocking"));
    expect_good(*parts[i], name(i, "blocking"));
    parts[i]->reset();
  }
  std::vector<Request*> requests(plans.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    expect_no_error(collective(communicator, plans[i].operation, parts[i]->operands(), Mode::nonblocking, requests[i]),
                    name(i, "nonblocking"));
  }
  for (size_t k = plans.size(); k-- > 0;) {
    size_t i = me % 2 ? k : plans.size() - 1 - k;
    process.p2p().wait(*requests[i]);
    expect_no_error(requests[i]->error, name(i, "nonblocking"));
    requests[i]->release();
    expect_good(*parts[i], name(i, "nonblocking"));
    parts[i]->reset();
  }
  for (size_t i = 0; i < plans.size(); ++i) {
    expect_no_error(collective(communicator, plans[i].operation, parts[i]->operands(), Mode::persistent, requests[i]),
                    name(i, "persistent"));
  }
  for (int round = 0; round < 2; ++round) {
    // Started in an order of each rank's own.
    for (size_t k = 0; k < plans.size(); ++k) {
      size_t i = (k + size_t(me)) % plans.size();
      expect_no_error(requests[i]->start(), name(i, "persistent"));
    }
    for (size_t i = 0; i < plans.size(); ++i) {
      process.p2p().wait(*requests[i]);
      requests[i]->set_inactive();
      expect_no_error(requests[i]->error, name(i, "persistent"));
      expect_good(*parts[i], name(i, "persistent"));
      parts[i]->reset();
    }
  }
  for (Request* request : requests) request->release();
}

Report run_world(uint64_t seed, int ranks, const std::vector<Plan>& plans, int left, const Algorithm* forced) {
  WorldOptions options = options_for(seed, ranks);
  if (forced && forced->needs & Algorithm::kNodeMemory) {
    options.shm = true;
    options.ranks_per_node = options.ranks;
  }
  return World(options).run([&](Process& process) { run_plans(process, plans, left, forced); });
}

class EveryAlgorithm : public testing::TestWithParam<size_t> {};

TEST_P(EveryAlgorithm, GivesTheModelsResult) {
  const Algorithm& algorithm = algorithms()[GetParam()];
  for_seeds(12, [&](uint64_t seed) {
    int ranks = 1 + int((seed * 7 + GetParam()) % 17);
    if (algorithm.needs & Algorithm::kPowerOfTwo) ranks = 1 << (seed % 5);
    std::vector<Plan> plans;
    for (uint64_t i = 0; i < 4; ++i) plans.emplace_back(seed * 100 + i, algorithm.operation, ranks);
    for (Plan& plan : plans) {
      if (!(algorithm.needs & Algorithm::kCommutative)) continue;
      plan.commutative = true;
    }
    Report report = run_world(seed, ranks, plans, 0, &algorithm);
    ASSERT_TRUE(report.ok()) << ranks << " ranks: " << report.failure;
  });
}

INSTANTIATE_TEST_SUITE_P(Table, EveryAlgorithm, testing::Range(size_t{0}, algorithms().size()),
                         [](const testing::TestParamInfo<size_t>& param) {
                           const Algorithm& a = algorithms()[param.param];
                           return std::string(name_of(a.operation)) + "_" + a.name + "_" + std::to_string(param.param);
                         });

TEST(CollectivesTest, MixedOperationsWithTheTablesChoice) {
  for_seeds(50, [&](uint64_t seed) {
    Rng rng(seed);
    int ranks = 1 + int(rng.below(17));
    std::vector<Plan> plans;
    for (uint64_t i = 0; i < 8; ++i) {
      plans.emplace_back(seed * 100 + i, Operation(rng.below(uint64_t(Operation::exscan) + 1)), ranks);
    }
    Report report = run_world(seed, ranks, plans, 0, nullptr);
    ASSERT_TRUE(report.ok()) << ranks << " ranks: " << report.failure;
  });
}

TEST(CollectivesTest, Intercommunicators) {
  for_seeds(50, [&](uint64_t seed) {
    Rng rng(seed);
    int ranks = 2 + int(rng.below(12));
    int left = 1 + int(rng.below(uint64_t(ranks) - 1));
    std::vector<Plan> plans;
    for (uint64_t i = 0; i < 8; ++i) {
      plans.emplace_back(seed * 100 + i, Operation(rng.below(uint64_t(Operation::scan))), ranks);
      plans.back().make_inter(left);
    }
    Report report = run_world(seed, ranks, plans, left, nullptr);
    ASSERT_TRUE(report.ok()) << left << " of " << ranks << " ranks: " << report.failure;
  });
}

TEST(CollectivesTest, SameSeedSameTrace) {
  auto hash = [] {
    std::vector<Plan> plans;
    for (uint64_t i = 0; i < 6; ++i) plans.emplace_back(i, Operation(i * 3 % 17), 6);
    Report report = run_world(5, 6, plans, 0, nullptr);
    EXPECT_TRUE(report.ok()) << report.failure;
    return report.trace_hash;
  };
  EXPECT_EQ(hash(), hash());
}

}  // namespace
}  // namespace tern::sim
