// Reductions with tern_reproducible: the same bits wherever the ranks are, in every mode and at every call. Sums of
// doubles of very different sizes, whose bits depend on the order of combining.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "base/rng.h"
#include "coll/collectives.h"
#include "coll/environment.h"
#include "datatype/predefined.h"
#include "sim/world.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

using Numbers = std::vector<double>;
constexpr std::array kReductions = {Operation::reduce, Operation::allreduce, Operation::scan, Operation::exscan,
                                    Operation::reduce_scatter_block};

Numbers values_of(int rank, Count count) {
  Rng rng(uint64_t(rank) * 977 + 3);
  Numbers values;
  for (Count i = 0; i < count; ++i)
    values.push_back(std::ldexp(double(rng.below(1u << 30)) - double(1 << 29), int(rng.below(60)) - 30));
  return values;
}

/// In blocks of any length, round robin, or without order; all on one node, too.
std::vector<uint64_t> draw_nodes(Rng& rng, int ranks) {
  const uint64_t kind = rng.below(4), nodes = 1 + rng.below(uint64_t(ranks));
  std::vector<uint64_t> names;
  uint64_t node = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (kind == 0) node = uint64_t(rank) * nodes / uint64_t(ranks);
    else if (kind == 1) node = uint64_t(rank) % nodes;
    else if (kind == 2) node = rng.below(nodes);
    else if (rank != 0 && rng.chance(1, 3)) ++node;
    names.push_back(node);
  }
  return names;
}

/// What all ranks have got by all reductions, one after the other.
Numbers results(uint64_t placement, int ranks, Count count, Mode mode, bool reproducible) {
  WorldOptions options;
  options.ranks = uint32_t(ranks);
  options.seed = placement;
  options.limits = {2'000'000'000, 30'000'000};
  options.tunables.reproducible = reproducible;
  std::vector<Numbers> by_rank(static_cast<size_t>(ranks));
  const Report report = World(options).run([&](Process& process) {
    PredefinedTypes types;
    PredefinedOps ops;
    const int me = process.world_rank();
    Communicator& world = process.world();
    Rng rng(placement);
    CollectiveEnvironment::of(world).set_levels(std::make_unique<Levels>(draw_nodes(rng, ranks)));
    for (Operation operation : kReductions) {
      const bool blocks = operation == Operation::reduce_scatter_block;
      Numbers mine = values_of(me, blocks ? count * ranks : count), got(size_t(count), 0.0);
      Operands o;
      o.send.buffer = reinterpret_cast<std::byte*>(mine.data());
      o.receive.buffer = reinterpret_cast<std::byte*>(got.data());
      o.send.count = o.receive.count = count;
      o.send.type = o.receive.type = &types.get(type_id::kDouble);
      o.op = &ops.get(OpId::sum);
      o.root = ranks - 1;
      Request* request = nullptr;
      Error error = collective(world, operation, o, mode, request);
      if (request) {
        process.p2p().wait(*request);
        error = std::move(request->error);
        request->release();
      }
      if (error) throw std::runtime_error(std::string(error.text()));
      Numbers& all = by_rank[size_t(me)];
      all.insert(all.end(), got.begin(), got.end());
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  Numbers all;
  for (const Numbers& part : by_rank) all.insert(all.end(), part.begin(), part.end());
  return all;
}

bool same_bits(const Numbers& a, const Numbers& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

TEST(Reproducible, TheSameBitsForAnyPlacement) {
  constexpr Count kCounts[] = {1, 130, 2000, 20'000};
  for_seeds(8, [&](uint64_t seed) {
    const int ranks = 3 + int(seed * 5 % 14);
    const Count count = kCounts[seed % 4];
    const Numbers first = results(seed, ranks, count, Mode::blocking, true);
    for (uint64_t other = 1; other <= 4; ++other) {
      const Mode mode = other % 2 ? Mode::blocking : Mode::nonblocking;
      EXPECT_TRUE(same_bits(first, results(seed + other * 100, ranks, count, mode, true)))
          << ranks << " ranks, " << count << " numbers, placement " << other;
    }
  });
}

// Else the test above could not fail.
TEST(Reproducible, WithoutItPlacementsDiffer) {
  int differ = 0;
  const Numbers first = results(1, 12, 130, Mode::blocking, false);
  for (uint64_t other = 1; other <= 4; ++other)
    differ += !same_bits(first, results(1 + other * 100, 12, 130, Mode::blocking, false));
  EXPECT_GT(differ, 0);
}

}  // namespace
}  // namespace tern::sim
