// The table of peers, and context ids among several jobs.
#include "base/peer_table.h"

#include <gtest/gtest.h>

#include <set>

#include "comm/context.h"

namespace tern {
namespace {

TEST(PeerTable, TheRanksOfTheOwnJobAreItsFirstPeers) {
  PeerTable table({77, 2}, 5);
  EXPECT_EQ(table.me(), 2u);
  EXPECT_EQ(table.size(), 5u);
  for (uint32_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(table.find({77, rank}), rank);
    EXPECT_EQ(table.name(rank), (RankName{77, rank}));
    EXPECT_TRUE(table.in_my_job(rank));
  }
  EXPECT_EQ(table.find({77, 5}), kNoPeer);
  EXPECT_EQ(table.find({78, 0}), kNoPeer);
  EXPECT_EQ(table.name(5), kNoRank);
}

TEST(PeerTable, OtherJobsFollowAndKeepTheirPlace) {
  PeerTable table({77, 0}, 5);
  const PeerId first = table.add_job(3, 4), second = table.add_job(500, 1'000'000);
  EXPECT_EQ(first, 5u);
  EXPECT_EQ(second, 9u);
  EXPECT_EQ(table.add_job(3, 4), first);
  EXPECT_EQ(table.size(), 1'000'009u);
  EXPECT_EQ(table.find({3, 3}), 8u);
  EXPECT_EQ(table.find({3, 4}), kNoPeer);
  EXPECT_EQ(table.find({500, 999'999}), 1'000'008u);
  for (PeerId peer : {0u, 4u, 5u, 8u, 9u, 1'000'008u}) EXPECT_EQ(table.find(table.name(peer)), peer);
  EXPECT_FALSE(table.in_my_job(first));
}

// Each of two ranks has another PeerId for the other; who gives way is decided by names, so they agree.
TEST(PeerTable, TwoRanksAgreeOnWhoComesFirst) {
  PeerTable a({77, 9}, 10), b({3, 0}, 1);
  const PeerId b_at_a = a.add_job(3, 1), a_at_b = b.add_job(77, 10) + 9;
  EXPECT_NE(a.comes_before(b_at_a), b.comes_before(a_at_b));
  EXPECT_TRUE(b.comes_before(a_at_b));
  EXPECT_TRUE(PeerTable({1, 0}, 2).comes_before(1));
  EXPECT_FALSE(PeerTable({1, 1}, 2).comes_before(0));
}

TEST(Context, IdsOfOneJobAndOfSeveralNeverMeet) {
  std::set<uint64_t> made;
  size_t count = 0;
  for (uint64_t job : {1, 2}) {
    for (uint32_t rank : {0u, 1u, 9'999u}) {
      PeerTable table({job, rank}, 10'000);
      for (uint32_t counter = 0; counter < 1000; ++counter, ++count) {
        table.add_job(99, 1);  // the two jobs know a third, and so perhaps each other
        const uint64_t id = make_context(table, counter);
        EXPECT_EQ(id & 3, 0u);
        EXPECT_EQ(id >> 62, 1u);
        made.insert(id);
      }
      PeerTable alone({job, rank}, 10'000);
      EXPECT_EQ(make_context(alone, 5), uint64_t{rank} << 34 | 5 << 2);
    }
  }
  EXPECT_EQ(made.size(), count);
}

}  // namespace
}  // namespace tern
