// The ranks of a node share an adapter's cache (fabric/adapter_share.h), and the default channels know it.
#include <gtest/gtest.h>

#include <utility>

#include "tests/sim/rdma_bench.h"

namespace tern::sim {
namespace {

using Bench = RdmaBench;

// All ranks of two nodes send much to all of the other node, and each would have a connected channel for each peer. An
// adapter that caches fewer queue pairs than that is not overfilled, whichever ranks get them: together, if the node's
// memory has their counts.
TEST(AdapterShare, TheRanksOfANodeShareTheAdaptersCache) {
  constexpr uint32_t kRanks = 4, kCache = 28, kInitiators = 4;
  constexpr uint32_t kFixed = kRanks * (kInitiators + 1), kLeft = kCache - kFixed;
  constexpr int kMessages = 600;
  constexpr std::pair<bool, const char*> kCases[] = {{true, "auto"}, {true, "auto-rc"}, {false, "auto"}};
  for (const auto& [shared, channels] : kCases) {
    const bool together = shared;
    SCOPED_TRACE(std::string(channels) + (together ? ", together" : ", each alone"));
    WorldOptions options = rdma_options_of(11);
    options.adapter_faults = {};
    options.ranks = 2 * kRanks;
    options.ranks_per_node = kRanks;
    options.adapter.dc = true;
    options.adapter.queue_pair_ns = options.adapter.connect_ns = 20'000;
    options.tunables.rdma_channels = channels;
    options.tunables.rdma_statistics_ms = 1;
    options.tunables.rdma_ring_setup_us = 0;
    options.tunables.rdma_queue_pair_cache = kCache;
    options.tunables.rdma_dc_initiators = kInitiators;
    uint32_t connected[2] = {};
    uint64_t most = 0;
    Machine machine(options);
    Report report = machine.run([&](Machine::Rank& rank) {
      Bench bench(rank);
      const PeerId me = rank.index(), first = me < kRanks ? kRanks : 0;
      if (together) {
        std::vector<AdapterUse*> words;
        for (AdapterUse& word : machine.adapters().node_of(me).uses) words.push_back(&word);
        AdapterUse& mine = *words[me % kRanks];
        bench.path->share_adapter(std::move(words), mine);
      }
      for (int i = 0; i < kMessages; ++i) {
        for (PeerId peer = first; peer < first + kRanks; ++peer) bench.send(peer, std::vector<std::byte>(8));
        for (PeerId peer = first; peer < first + kRanks; ++peer) bench.wait_messages(peer, i + 1);
        bench.strand.charge_ns(20'000);
        most = std::max<uint64_t>(most, bench.path->counters().rdma_node_queue_pairs);
      }
      for (PeerId peer = first; peer < first + kRanks; ++peer) {
        const ChannelKind kind = bench.path->channel(bench.path->lane(peer));
        connected[me / kRanks] += kind == ChannelKind::rc || kind == ChannelKind::rc_rdma;
      }
      bench.finish();
    });
    ASSERT_TRUE(report.ok()) << report.failure;
    for (const uint32_t here : connected) {
      if (together) {
        EXPECT_GT(here, 0u);
        EXPECT_LE(here, kLeft);
      } else {
        EXPECT_GT(here, kLeft);  // each alone finds room for all of its own
      }
    }
    if (together) {
      EXPECT_LE(most, kCache);
    }
  }
}

// What stands for an empty TERN_RDMA_CHANNELS is the same at all ranks.
TEST(AdapterShare, TheDefaultKnowsTheAdaptersCache) {
  Tunables tunables;
  rdma::Capabilities able;
  EXPECT_EQ(channels_in_use(tunables, able, 96, 4), "rc");  // it is not known what the adapter caches
  able.queue_pair_cache = 1024;
  EXPECT_EQ(channels_in_use(tunables, able, 96, 4), "auto-rc");  // 24 * 72
  EXPECT_EQ(channels_in_use(tunables, able, 32, 2), "rc");       // 16 * 16
  EXPECT_EQ(channels_in_use(tunables, able, 96, 0), "rc");
  EXPECT_EQ(channels_in_use(tunables, able, 96, 1), "rc");
  tunables.rdma_queue_pair_cache = 100;
  EXPECT_EQ(channels_in_use(tunables, able, 32, 2), "auto-rc");
  tunables.rdma_channels = "rc-rdma";
  EXPECT_EQ(channels_in_use(tunables, able, 96, 4), "rc-rdma");
}

}  // namespace
}  // namespace tern::sim
