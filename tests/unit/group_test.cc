// Group against naive ordered sets, for random groups of every form.
#include "comm/group.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tern {
namespace {

using Peers = std::vector<PeerId>;

Peers random_peers(Rng& rng) {
  Peers peers;
  int size = int(rng.below(12));
  switch (rng.below(3)) {
    case 0: {  // an arithmetic progression, up or down
      int64_t stride = int64_t(rng.below(5)) + 1, first = int64_t(rng.below(10));
      for (int i = 0; i < size; ++i) peers.push_back(PeerId(first + i * stride));
      if (rng.chance(1, 2)) std::reverse(peers.begin(), peers.end());
      break;
    }
    default:
      for (int i = 0; i < size; ++i) {
        PeerId peer = PeerId(rng.below(24));
        if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
      }
  }
  return peers;
}

bool has(const Peers& peers, PeerId peer) { return std::find(peers.begin(), peers.end(), peer) != peers.end(); }

Comparison naive_compare(const Peers& a, const Peers& b) {
  if (a == b) return Comparison::identical;
  return std::set<PeerId>(a.begin(), a.end()) == std::set<PeerId>(b.begin(), b.end()) ? Comparison::similar
                                                                                      : Comparison::unequal;
}

TEST(Group, RanksAndMembersOfRandomGroups) {
  Rng rng(1);
  for (int round = 0; round < 3000; ++round) {
    Peers peers = random_peers(rng);
    PeerId me = PeerId(rng.below(24));
    Ref<Group> group = Group::of(me, peers);
    ASSERT_EQ(group->size(), int(peers.size()));
    ASSERT_EQ(group->peers(), peers);
    for (PeerId peer = 0; peer < 70; ++peer) {
      auto at = std::find(peers.begin(), peers.end(), peer);
      int expected = at == peers.end() ? kUndefined : int(at - peers.begin());
      ASSERT_EQ(group->rank_of(peer), expected) << "round " << round << " peer " << peer;
    }
    ASSERT_EQ(group->rank(), group->rank_of(me));
  }
}

TEST(Group, SetArithmeticOfRandomGroups) {
  Rng rng(2);
  for (int round = 0; round < 3000; ++round) {
    Peers a = random_peers(rng), b = random_peers(rng);
    if (rng.chance(1, 4)) {  // the same members in another order, often enough
      b = a;
      for (size_t i = b.size(); i > 1; --i) std::swap(b[i - 1], b[rng.below(i)]);
    }
    Ref<Group> ga = Group::of(0, a), gb = Group::of(0, b);
    Peers joined = a, common, rest;
    for (PeerId peer : b)
      if (!has(a, peer)) joined.push_back(peer);
    for (PeerId peer : a) (has(b, peer) ? common : rest).push_back(peer);
    ASSERT_EQ(ga->join(*gb)->peers(), joined);
    ASSERT_EQ(ga->intersect(*gb)->peers(), common);
    ASSERT_EQ(ga->subtract(*gb)->peers(), rest);
    ASSERT_EQ(ga->disjoint(*gb), common.empty());
    ASSERT_EQ(ga->compare(*gb), naive_compare(a, b));
    ASSERT_EQ(ga->compare(*Group::of(7, a)), Comparison::identical);
    std::vector<int> ranks{kProcNull}, translated(a.size() + 1);
    for (int rank = 0; rank < ga->size(); ++rank) ranks.push_back(rank);
    ASSERT_FALSE(ga->translate(ranks, *gb, translated.data()));
    ASSERT_EQ(translated[0], kProcNull);
    for (size_t rank = 0; rank < a.size(); ++rank) ASSERT_EQ(translated[rank + 1], gb->rank_of(a[rank]));
  }
}

TEST(Group, IncludeAndExcludeRandomRanks) {
  Rng rng(3);
  for (int round = 0; round < 2000; ++round) {
    Peers peers = random_peers(rng);
    Ref<Group> group = Group::of(0, peers);
    std::vector<int> ranks;
    for (int rank = 0; rank < group->size(); ++rank)
      if (rng.chance(1, 2)) ranks.push_back(rank);
    for (size_t i = ranks.size(); i > 1; --i) std::swap(ranks[i - 1], ranks[rng.below(i)]);
    Peers in, out;
    for (int rank : ranks) in.push_back(peers[size_t(rank)]);
    for (PeerId peer : peers)
      if (!has(in, peer)) out.push_back(peer);
    Ref<Group> result;
    ASSERT_FALSE(group->include(ranks, result));
    ASSERT_EQ(result->peers(), in);
    ASSERT_FALSE(group->exclude(ranks, result));
    ASSERT_EQ(result->peers(), out);
  }
}

TEST(Group, RangesNameWhatTheStandardSays) {
  Ref<Group> group = Group::strided(0, 0, 1, 20);
  Ref<Group> result;
  std::vector<Group::Range> ranges{{1, 9, 3}, {16, 10, -2}, {5, 5, 7}};
  ASSERT_FALSE(group->include_ranges(ranges, result));
  EXPECT_EQ(result->peers(), (Peers{1, 4, 7, 16, 14, 12, 10, 5}));
  ASSERT_FALSE(group->exclude_ranges(ranges, result));
  EXPECT_EQ(result->peers(), (Peers{0, 2, 3, 6, 8, 9, 11, 13, 15, 17, 18, 19}));
  // A range that runs the wrong way names nothing.
  std::vector<Group::Range> backwards{{9, 1, 3}};
  ASSERT_FALSE(group->include_ranges(backwards, result));
  EXPECT_EQ(result->size(), 0);
}

TEST(Group, RefusesBadRanks) {
  Ref<Group> group = Group::strided(0, 0, 1, 4);
  Ref<Group> result;
  auto class_of = [](const Error& error) { return ErrorClass(error.error_class()); };
  EXPECT_EQ(class_of(group->include(std::vector<int>{0, 4}, result)), ErrorClass::rank);
  EXPECT_EQ(class_of(group->include(std::vector<int>{-1}, result)), ErrorClass::rank);
  EXPECT_EQ(class_of(group->include(std::vector<int>{1, 2, 1}, result)), ErrorClass::rank);
  EXPECT_EQ(class_of(group->exclude(std::vector<int>{3, 3}, result)), ErrorClass::rank);
  EXPECT_EQ(class_of(group->include_ranges(std::vector<Group::Range>{{0, 3, 0}}, result)), ErrorClass::arg);
  EXPECT_EQ(class_of(group->include_ranges(std::vector<Group::Range>{{0, 4, 1}}, result)), ErrorClass::rank);
  EXPECT_EQ(class_of(group->include_ranges(std::vector<Group::Range>{{0, 2, 1}, {2, 3, 1}}, result)), ErrorClass::rank);
  int translated = 0;
  EXPECT_EQ(class_of(group->translate(std::vector<int>{4}, *group, &translated)), ErrorClass::rank);
  EXPECT_FALSE(result);
}

TEST(Group, AWorldOfAMillionCostsNoTable) {
  Ref<Group> world = Group::strided(123456, 0, 1, 1 << 20);
  EXPECT_EQ(world->rank(), 123456);
  std::vector<Group::Range> odd{{1, (1 << 20) - 1, 2}};
  Ref<Group> half;
  ASSERT_FALSE(world->include_ranges(odd, half));
  EXPECT_EQ(half->size(), 1 << 19);
  EXPECT_EQ(half->rank_of(77), 38);
  EXPECT_EQ(half->rank_of(78), kUndefined);
}

}  // namespace
}  // namespace tern
