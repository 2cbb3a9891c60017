// The ranks of a node share the cache of an adapter (fabric/adapter_share.h).
#include "fabric/adapter_share.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/rng.h"

namespace tern {
namespace {

constexpr uint64_t kAdapter = 7, kOther = 9;

/// The node's memory, and the view of each of its ranks.
struct Node {
  Node(uint32_t ranks, uint32_t capacity) : words(ranks) {
    for (uint32_t i = 0; i < ranks; ++i) shares.push_back(std::make_unique<AdapterShare>(capacity));
  }
  void join(uint32_t rank, uint64_t adapter = kAdapter) {
    std::vector<AdapterUse*> all;
    for (AdapterUse& word : words) all.push_back(&word);
    shares[rank]->join(all, words[rank], adapter);
  }
  void join_all() {
    for (uint32_t i = 0; i < words.size(); ++i) join(i);
  }
  std::vector<AdapterUse> words;
  std::vector<std::unique_ptr<AdapterShare>> shares;
};

TEST(AdapterShare, WhatAllRanksUseIsBounded) {
  Node node(3, 10);
  node.join_all();
  AdapterShare &a = *node.shares[0], &b = *node.shares[1], &c = *node.shares[2];
  a.set_fixed(2);
  b.set_fixed(1);
  EXPECT_EQ(a.most(), 7u);
  EXPECT_TRUE(a.claim(4));
  EXPECT_TRUE(b.claim(3));
  EXPECT_EQ(a.queue_pairs(), 10u);
  EXPECT_FALSE(c.claim(1));
  EXPECT_EQ(c.most(), 0u);
  EXPECT_EQ(c.queue_pairs(), 10u);
  EXPECT_TRUE(b.claim(1));  // fewer are always allowed
  EXPECT_EQ(c.most(), 2u);
  EXPECT_TRUE(c.claim(2));
  a.set_rings(5);
  b.set_rings(6);
  EXPECT_EQ(c.rings(), 11u);
}

// A rank's own path and its message engines' use one adapter.
TEST(AdapterShare, SeveralPathsOfARankAddUp) {
  Node node(2, 10);
  node.join(0);
  AdapterShare engine(10);
  engine.set_fixed(2);
  engine.set_rings(3);
  engine.join({&node.words[0], &node.words[1]}, node.words[0], kAdapter);
  node.join(1);
  EXPECT_TRUE(node.shares[0]->claim(4));
  EXPECT_EQ(node.shares[1]->queue_pairs(), 6u);
  EXPECT_FALSE(engine.claim(5));
  EXPECT_TRUE(engine.claim(3));
  EXPECT_EQ(node.shares[1]->queue_pairs(), 9u);
  EXPECT_EQ(node.shares[1]->most(), 1u);
  node.shares[0]->set_claimed(0);
  engine.set_fixed(1);
  engine.set_rings(1);
  EXPECT_EQ(node.shares[1]->queue_pairs(), 4u);
  EXPECT_EQ(node.shares[1]->rings(), 1u);
}

TEST(AdapterShare, RanksOnAnotherAdapterDoNotCount) {
  Node node(2, 4);
  node.join(0);
  node.join(1, kOther);
  EXPECT_TRUE(node.shares[1]->claim(4));
  EXPECT_TRUE(node.shares[0]->claim(4));
  EXPECT_EQ(node.shares[0]->queue_pairs(), 4u);
}

TEST(AdapterShare, AloneAndWithoutALimit) {
  AdapterShare alone(3), boundless(0);
  alone.set_fixed(1);
  EXPECT_TRUE(alone.claim(2));
  EXPECT_FALSE(alone.claim(3));
  EXPECT_TRUE(boundless.claim(1'000'000));
  EXPECT_EQ(boundless.most(), ~0u);
  // What was used before the node's memory is there moves into it.
  std::vector<AdapterUse> words(2);
  alone.join({&words[0], &words[1]}, words[1], kAdapter);
  EXPECT_EQ(words[1].queue_pairs.load(), 3u);
}

TEST(AdapterShare, TwoNeverGetTheLastPlace) {
  constexpr uint32_t kRanks = 4, kCapacity = 9;
  Node node(kRanks, kCapacity);
  node.join_all();
  std::vector<uint32_t> held(kRanks);
  std::atomic<uint32_t> granted{0}, most{0};
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      Rng rng(rank + 1);
      AdapterShare& share = *node.shares[rank];
      for (int i = 0; i < 20'000; ++i) {
        const uint32_t wanted = uint32_t(rng.below(6));
        // What is given back is no longer counted before the share may be claimed by another.
        if (wanted < held[rank]) granted -= held[rank] - wanted;
        if (!share.claim(wanted)) continue;
        if (wanted > held[rank]) granted += wanted - held[rank];
        held[rank] = wanted;
        for (uint32_t now = granted, before = most; now > before && !most.compare_exchange_weak(before, now);) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most.load(), kCapacity);
  EXPECT_GT(most.load(), 3u);
}

}  // namespace
}  // namespace tern
