// The distribution of ranks over hosts (tools/mpiexec/shares.h).
#include "tools/mpiexec/shares.h"

#include <gtest/gtest.h>

namespace tern::mpiexec {
namespace {

TEST(Shares, HostsAreRead) {
  EXPECT_EQ(parse_host("node1"), (Host{"node1", 0}));
  EXPECT_EQ(parse_host("node1:4"), (Host{"node1", 4}));
  for (const char* no_number : {"fe80::1", "::1", "node1:", "node1:x", "node1:0", "node1:-1", "node1:4x", "a:9999999"})
    EXPECT_EQ(parse_host(no_number), (Host{no_number, 0})) << no_number;
}

TEST(Shares, HostsThatSayNothingShareEqually) {
  EXPECT_EQ(share_ranks({{"a"}, {"b"}}, 4, 0), (Shares{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(share_ranks({{"a"}, {"b"}}, 5, 0), (Shares{{"a", 3}, {"b", 2}}));
  EXPECT_EQ(share_ranks({{"a"}, {"b"}, {"c"}}, 2, 0), (Shares{{"a", 1}, {"b", 1}}));
  EXPECT_EQ(share_ranks({{"a"}}, 3, 0), (Shares{{"a", 3}}));
  EXPECT_EQ(share_ranks({}, 3, 0), Shares{});
}

TEST(Shares, SlotsAreFilledRoundByRound) {
  EXPECT_EQ(share_ranks({{"a", 2}, {"b", 2}}, 3, 0), (Shares{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(share_ranks({{"a", 2}, {"b", 1}}, 5, 0), (Shares{{"a", 4}, {"b", 1}}));
  EXPECT_EQ(share_ranks({{"a", 2}, {"b"}}, 3, 0), (Shares{{"a", 2}, {"b", 1}})) << "one that says nothing has one";
  EXPECT_EQ(share_ranks({{"a"}, {"a"}, {"b"}}, 3, 0), (Shares{{"a", 2}, {"b", 1}})) << "named twice";
  EXPECT_EQ(share_ranks({{"a", 4}, {"b", 4}}, 3, 1), (Shares{{"a", 2}, {"b", 1}})) << "-ppn counts, not the slots";
}

TEST(Shares, EveryRankHasItsHost) {
  for (int ranks = 1; ranks <= 40; ++ranks) {
    for (int per_host = 0; per_host <= 3; ++per_host) {
      int sum = 0;
      for (const Host& host : share_ranks({{"a", 3}, {"b"}, {"c", 2}}, ranks, per_host)) sum += host.slots;
      EXPECT_EQ(sum, ranks);
    }
  }
}

TEST(Shares, ProgramsTakeOneAfterTheOther) {
  Shares all{{"a", 2}, {"b", 2}};
  EXPECT_EQ(take_front(all, 3), (Shares{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(take_front(all, 1), (Shares{{"b", 1}}));
  EXPECT_TRUE(all.empty());
}

}  // namespace
}  // namespace tern::mpiexec
