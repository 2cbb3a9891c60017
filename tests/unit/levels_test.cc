// Which members share a node, for any placement.
#include "coll/levels.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace tern {
namespace {

TEST(Levels, InBlocks) {
  const uint64_t names[] = {7, 7, 7, 7, 3, 3, 3};
  const Levels levels(names);
  EXPECT_TRUE(levels.in_blocks());
  EXPECT_EQ(levels.nodes(), 2);
  EXPECT_EQ(levels.members(0), 4);
  EXPECT_EQ(levels.members(1), 3);
  EXPECT_EQ(levels.fewest(), 3);
  EXPECT_EQ(levels.most(), 4);
  EXPECT_EQ(levels.rank(1, 2), 6);
  EXPECT_EQ(levels.node_of(3), 0);
  EXPECT_EQ(levels.node_of(4), 1);
  EXPECT_EQ(levels.index_of(5), 1);
}

TEST(Levels, RoundRobin) {
  const uint64_t names[] = {1, 2, 1, 2, 1};
  const Levels levels(names);
  EXPECT_FALSE(levels.in_blocks());
  EXPECT_EQ(levels.members(0), 3);
  EXPECT_EQ(levels.rank(0, 2), 4);
  EXPECT_EQ(levels.rank(1, 1), 3);
  EXPECT_EQ(levels.index_of(4), 2);
}

// A node whose members come back after others is no block, although its first members are neighbours.
TEST(Levels, ANodeThatComesBack) {
  const uint64_t names[] = {1, 1, 2, 2, 1};
  EXPECT_FALSE(Levels(names).in_blocks());
}

TEST(Levels, EveryRankIsWhereItSays) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    std::vector<uint64_t> names(1 + rng.below(40));
    const uint64_t nodes = 1 + rng.below(8);
    for (uint64_t& name : names) name = rng.below(nodes);
    if (seed % 2 == 0) std::sort(names.begin(), names.end());
    const Levels levels(names);
    int members = 0;
    for (int node = 0; node < levels.nodes(); ++node) {
      members += levels.members(node);
      for (int i = 0; i < levels.members(node); ++i) {
        const int rank = levels.rank(node, i);
        EXPECT_EQ(levels.node_of(rank), node);
        EXPECT_EQ(levels.index_of(rank), i);
        EXPECT_EQ(names[size_t(rank)], names[size_t(levels.rank(node, 0))]);
        if (i != 0) {
          EXPECT_GT(rank, levels.rank(node, i - 1));
        }
      }
    }
    EXPECT_EQ(members, int(names.size()));
    if (seed % 2 == 0) {
      EXPECT_TRUE(levels.in_blocks());
    }
  }
}

}  // namespace
}  // namespace tern
