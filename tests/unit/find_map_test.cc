// FIND_MAP against the paper's doubly nested loop (Takagi et al. 2015, Figure 6), and the choice among windows (3.4).
#include "fabric/rdma/channels/find_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/rng.h"
#include "fabric/rdma/channels/channel_selector.h"

namespace tern {
namespace {

// As printed, term by term, with every sum written out; only that m is at most l.
int64_t papers_gain(const std::vector<uint32_t>& n, size_t l, size_t m, const ChannelCosts& costs, int64_t s) {
  const int64_t unit = 2 * s;
  int64_t x = 0, most = 0;
  for (size_t i = 0; i < m; ++i) x += unit * n[i] * costs.rc_ring_gain;
  for (size_t i = m; i < l; ++i) x += unit * n[i] * costs.dc_ring_gain;
  for (size_t i = 0; i < l; ++i) x -= unit / s * n[i] * costs.credit;
  for (size_t i = 0; i < l; ++i) most = std::max<int64_t>(most, n[i]);
  x -= unit / 2 * most * int64_t(l) * costs.empty_poll;
  x -= unit * (int64_t(m) * costs.rc_ring_setup + int64_t(l - m) * costs.dc_ring_setup);
  return x;
}

FoundMap papers_loop(const std::vector<uint32_t>& n, const ChannelCosts& costs, const MapLimits& limits) {
  FoundMap best;
  for (size_t l = 0; l <= std::min<size_t>(n.size(), limits.max_rings); ++l) {
    for (size_t m = 0; m <= std::min<size_t>(l, limits.max_connected); ++m) {
      if (!limits.dc && m != l) continue;
      const int64_t x = papers_gain(n, l, m, costs, limits.ring_entries);
      if (x > best.gain) best = {uint32_t(l), uint32_t(m), 0, x};
    }
  }
  return best;
}

TEST(FindMap, FindsWhatThePapersLoopFinds) {
  Rng rng(20);
  int with_both = 0;
  for (int round = 0; round < 4000; ++round) {
    ChannelCosts costs;
    MapLimits limits;
    if (round % 2) {  // the paper's parameters in one half of the rounds, others in the other
      costs.dc_ring_gain = int64_t(rng.below(200'000)) - 20'000;
      costs.rc_ring_gain = costs.dc_ring_gain + int64_t(rng.below(100'000)) - 20'000;
      costs.empty_poll = int64_t(rng.below(30'000));
      costs.credit = int64_t(rng.below(1'000'000));
      costs.dc_ring_setup = int64_t(rng.below(30'000'000));
      costs.rc_ring_setup = int64_t(rng.below(60'000'000));
      limits.ring_entries = uint32_t(1 + rng.below(64));
      limits.dc = rng.chance(3, 4);
    }
    limits.max_rings = uint32_t(rng.below(60));
    limits.max_connected = uint32_t(rng.below(30));
    std::vector<uint32_t> counts(rng.below(70));
    for (uint32_t& count : counts) count = uint32_t(rng.below(uint64_t{1} << rng.below(24)));
    std::sort(counts.begin(), counts.end(), std::greater<>());
    const FoundMap found = find_map(counts, costs, limits), expected = papers_loop(counts, costs, limits);
    ASSERT_EQ(found, expected) << "round " << round << ": " << found.rings << "," << found.connected << " gain "
                               << found.gain << ", the loop has " << expected.rings << "," << expected.connected
                               << " gain " << expected.gain;
    with_both += found.connected != 0 && found.connected < found.rings;
    // What it would gain once it is there.
    std::span<const uint32_t> all(counts);
    const int64_t setup =
        2 * int64_t(limits.ring_entries) *
        (found.connected * costs.rc_ring_setup + (found.rings - found.connected) * costs.dc_ring_setup);
    EXPECT_EQ(gain_of_map(all.first(found.connected), all.subspan(found.connected, found.rings - found.connected), {},
                          costs, limits),
              found.gain + setup);
  }
  EXPECT_GT(with_both, 200);
}

// Beyond the paper: k more peers get a connected queue pair without a ring. Every l, m and k, term by term.
TEST(FindMap, ConnectedPeersWithoutRingsAreTheBestOfAllChoices) {
  Rng rng(22);
  int with_all = 0, with_some = 0;
  for (int round = 0; round < 2000; ++round) {
    ChannelCosts costs = kCostsAgainstDatagrams;
    MapLimits limits;
    limits.dc = rng.chance(1, 3);
    if (limits.dc) {
      costs = {};
      costs.connected_gain = int64_t(rng.below(uint64_t(costs.rc_ring_gain - costs.dc_ring_gain) + 1));
    } else if (round % 2) {
      costs.rc_ring_gain = int64_t(rng.below(400'000));
      costs.connected_gain = int64_t(rng.below(400'000));
      costs.empty_poll = int64_t(rng.below(200'000));
    }
    limits.max_rings = uint32_t(rng.below(20));
    limits.max_connected = uint32_t(rng.below(12));
    std::vector<uint32_t> counts(rng.below(25));
    for (uint32_t& count : counts) count = uint32_t(rng.below(uint64_t{1} << rng.below(20)));
    std::sort(counts.begin(), counts.end(), std::greater<>());
    int64_t best = 0;
    const int64_t unit = 2 * int64_t(limits.ring_entries);
    for (size_t l = 0; l <= std::min<size_t>(counts.size(), limits.max_rings); ++l) {
      for (size_t m = limits.dc ? 0 : l; m <= std::min<size_t>(l, limits.max_connected); ++m) {
        int64_t gain = papers_gain(counts, l, m, costs, limits.ring_entries);
        best = std::max(best, gain);
        for (size_t i = l; i < counts.size() && i - l < limits.max_connected - m; ++i) {
          gain += unit * (int64_t(counts[i]) * costs.connected_gain - costs.rc_ring_setup);
          best = std::max(best, gain);
        }
      }
    }
    const FoundMap found = find_map(counts, costs, limits);
    ASSERT_EQ(found.gain, best) << "round " << round << ": " << found.rings << "," << found.connected << ","
                                << found.without_ring;
    EXPECT_LE(found.connected + found.without_ring, limits.max_connected);
    with_all += found.rings != 0 && found.without_ring != 0;
    with_some += found.without_ring != 0;
  }
  EXPECT_GT(with_all, 50);
  EXPECT_GT(with_some, with_all);
}

// The best of all sets of connected peers, of which at most h are not paired, among the l that send most.
int64_t best_of_all_sets(const std::vector<uint32_t>& n, const std::vector<uint8_t>& paired, const ChannelCosts& costs,
                         const MapLimits& limits) {
  int64_t best = 0;
  for (size_t l = 0; l <= std::min<size_t>(n.size(), limits.max_rings); ++l) {
    const int64_t without = papers_gain(n, l, 0, costs, limits.ring_entries);
    for (uint32_t set = 0; set < 1u << l; ++set) {
      uint32_t unpaired = 0;
      int64_t gain = without;
      for (size_t i = 0; i < l; ++i) {
        if ((set >> i & 1) == 0) continue;
        unpaired += !paired[i];
        gain += 2 * int64_t(limits.ring_entries) * gain_of_connecting(n[i], costs);
      }
      if (unpaired <= limits.max_connected) best = std::max(best, gain);
    }
  }
  return best;
}

TEST(FindMap, PairedPeersAreConnectedBesideTheOthers) {
  Rng rng(21);
  int differ = 0;
  for (int round = 0; round < 1500; ++round) {
    ChannelCosts costs;
    MapLimits limits;
    // (If connecting gained less the more messages come, the paper's choice of the busiest would not be the best.)
    costs.rc_ring_gain = costs.dc_ring_gain + int64_t(rng.below(100'000));
    costs.rc_ring_setup = int64_t(rng.below(40'000'000));
    limits.max_rings = uint32_t(rng.below(10));
    limits.max_connected = uint32_t(rng.below(5));
    std::vector<uint32_t> counts(rng.below(9));
    for (uint32_t& count : counts) count = uint32_t(rng.below(uint64_t{1} << rng.below(20)));
    std::sort(counts.begin(), counts.end(), std::greater<>());
    std::vector<uint8_t> paired(counts.size());
    for (uint8_t& one : paired) one = rng.chance(1, 3);
    const int64_t gain = find_map(counts, costs, limits, paired).gain;
    ASSERT_EQ(gain, best_of_all_sets(counts, paired, costs, limits)) << "round " << round;
    differ += gain != find_map(counts, costs, limits).gain;
  }
  EXPECT_GT(differ, 50);
}

TEST(FindMap, NothingIsGainedFromThoseWhoSendLittle) {
  EXPECT_EQ(find_map({}, {}, {}), FoundMap{});
  const std::vector<uint32_t> few = {50, 3, 1};
  EXPECT_EQ(find_map(few, {}, {}), FoundMap{});
  const std::vector<uint32_t> busy = {100'000, 90'000, 2};
  const FoundMap found = find_map(busy, {}, {});
  EXPECT_EQ(found.rings, 2u);
  EXPECT_EQ(found.connected, 2u);
}

TEST(FindMap, StatisticsTakeFewerRowsAboveAThousandRanks) {
  EXPECT_EQ(statistics_rows(2048, 2), 2048u);
  EXPECT_EQ(statistics_rows(2048, 1024), 2048u);
  EXPECT_EQ(statistics_rows(2048, 2048), 1024u);
  EXPECT_EQ(statistics_rows(2048, 1 << 16), 170u);
  // 87 MB with 2^16 ranks and 8 bytes an entry (section 4.2).
  EXPECT_NEAR(double(statistics_rows(2048, 1 << 16)) * 8 * (1 << 16), 87e6, 0.05 * 87e6);
}

TEST(ChannelSelector, FollowsAPatternThatChangesAndStaysWithOneThatDoesNot) {
  ChannelSelector selector({}, {}, 2048);
  auto unit = [&](PeerId first, PeerId last) {
    for (PeerId peer = first; peer < last; ++peer) selector.add(peer, 50'000);
    return selector.end_of_unit();
  };
  EXPECT_TRUE(unit(0, 4));
  EXPECT_EQ(selector.map().size(), 4u);
  EXPECT_TRUE(selector.map().contains(3));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(unit(0, 4)) << i;
  // Other peers send now: the last half window shows it first.
  bool changed = false;
  int units = 0;
  for (; units < 40 && !changed; ++units) changed = unit(10, 14);
  EXPECT_TRUE(changed);
  EXPECT_LE(units, 2);
  EXPECT_TRUE(selector.map().contains(10));
}

// What a map does not need stays while polling it is cheap, so that a pattern that returns finds its channels.
TEST(ChannelSelector, APatternThatReturnsFindsItsChannels) {
  ChannelSelector selector({}, {}, 2048);
  auto units = [&](PeerId first, PeerId last, int how_many) {
    int changes = 0;
    for (; how_many > 0; --how_many) {
      for (PeerId peer = first; peer < last; ++peer) selector.add(peer, 50'000);
      changes += selector.end_of_unit();
    }
    return changes;
  };
  EXPECT_EQ(units(0, 6, 10), 1);
  EXPECT_EQ(units(10, 16, 10), 1);
  EXPECT_EQ(selector.map().size(), 12u);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(units(0, 6, 10), 0);
    EXPECT_EQ(units(10, 16, 10), 0);
  }
}

// One busy peer pays for every ring polled: at most half of the threshold (0.0125 us), 2.5 rings of p/2 = 0.005 us.
TEST(ChannelSelector, WhatAMapDoesNotNeedGoesWhenPollingItCosts) {
  ChannelSelector selector({}, {}, 2048);
  for (PeerId peer = 0; peer < 60; ++peer) selector.add(peer, 50'000);
  EXPECT_TRUE(selector.end_of_unit());
  EXPECT_EQ(selector.map().size(), 60u);
  bool changed = false;
  for (int unit = 0; unit < 3; ++unit) {
    selector.add(77, 1'000'000);
    changed |= selector.end_of_unit();
  }
  EXPECT_TRUE(changed);
  EXPECT_TRUE(selector.map().contains(77));
  EXPECT_EQ(selector.map().size(), 3u);
}

TEST(ChannelSelector, PeersThatArePairedAnywayAreConnected) {
  MapLimits limits;
  limits.max_connected = 4;
  ChannelSelector selector({}, limits, 2048);
  for (PeerId peer = 0; peer < 10; ++peer) selector.add(peer, 50'000 + peer, peer < 3);
  EXPECT_TRUE(selector.end_of_unit());
  for (PeerId peer = 0; peer < 10; ++peer)
    EXPECT_EQ(selector.map().at(peer) == ChannelKind::rc_rdma, peer < 3 || peer == 9) << peer;
}

TEST(ChannelSelector, TheTableIsBounded) {
  ChannelSelector selector({}, {}, 10);
  size_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    for (PeerId peer = 0; peer < 100; ++peer) selector.add(peer, 1000 + peer);
    selector.end_of_unit();
    most = std::max(most, selector.table_bytes());
  }
  EXPECT_LE(most, 10u * 128 * 8);
}

// Section 4.2: 273 MB with 2^16 ranks, all of which send in every unit, against 93 GB of a connected queue pair for
// each. Queue pairs as Table 4 counts them (KB are 1000 bytes there); the statistics are those that are allocated.
TEST(ChannelSelector, MemoryWith65536RanksIsThePapers) {
  constexpr uint32_t kRanks = 1 << 16;
  constexpr double kCommon = (296 + 512) * 1e3, kDc = 1340e3, kConnected = 1424e3, kPool = 128;
  ChannelSelector selector({}, {}, statistics_rows(2048, kRanks));
  Rng rng(4);
  for (int unit = 0; unit < 200; ++unit) {
    for (PeerId peer = 0; peer < kRanks; ++peer) selector.add(peer, uint32_t(1 + rng.below(100)));
    selector.end_of_unit();
  }
  EXPECT_NEAR(kCommon + kDc + kPool * kConnected + double(selector.table_bytes()), 273e6, 27.3e6);
  EXPECT_NEAR(kCommon + kDc + kRanks * kConnected, 93e9, 9.3e9);
}

// The sums follow the windows' ends whatever the history was.
TEST(ChannelSelector, WindowsThatMoveCountWhatTheirRowsHave) {
  Rng rng(9);
  for (int round = 0; round < 50; ++round) {
    const size_t rows = 1 + rng.below(12);
    ChannelSelector selector({}, {}, rows);
    for (int unit = 0; unit < 60; ++unit) {
      for (PeerId peer = 0; peer < 20; ++peer) {
        if (rng.chance(1, 3)) selector.add(peer, uint32_t(rng.below(uint64_t{1} << rng.below(20))));
      }
      selector.end_of_unit();
    }
    // Nothing comes any more: the windows run empty with their rows, and nothing is left in them.
    for (size_t unit = 0; unit < rows; ++unit) selector.end_of_unit();
    EXPECT_EQ(selector.messages_in_window(), 0u);
    // One busy peer is then all that counts.
    for (int unit = 0; unit < 3; ++unit) {
      selector.add(77, 1'000'000);
      selector.end_of_unit();
    }
    EXPECT_TRUE(selector.map().contains(77) && selector.map().at(77) == ChannelKind::rc_rdma);
    EXPECT_LE(selector.map().size(), 3u);
    EXPECT_EQ(selector.messages_in_window(), 1'000'000u * std::min<size_t>(3, rows));
  }
}

TEST(ChannelSelector, SilenceChangesNothing) {
  ChannelSelector selector({}, {}, 100);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(selector.end_of_unit());
  EXPECT_TRUE(selector.map().empty());
}

}  // namespace
}  // namespace tern
