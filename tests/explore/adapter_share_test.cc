// The share of an adapter's cache (fabric/adapter_share.h): ranks that claim the last places at one time never both
// get them.
#include "fabric/adapter_share.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/explore/pieces.h"

namespace tern::explore {
namespace {

struct Node {
  Node(size_t ranks, uint32_t capacity) : words(ranks), granted(ranks, 0) {
    std::vector<AdapterUse*> all;
    for (AdapterUse& word : words) all.push_back(&word);
    for (AdapterUse& word : words) {
      shares.push_back(std::make_unique<AdapterShare>(capacity));
      shares.back()->join(all, word, 7);
    }
  }
  std::vector<AdapterUse> words;
  std::vector<std::unique_ptr<AdapterShare>> shares;
  std::vector<uint32_t> granted;  ///< by rank
};

/// Each rank claims `wanted` queue pairs, and gives one back that it has got if `returns`.
Program claims(size_t ranks, uint32_t capacity, uint32_t wanted, bool returns) {
  return [=](Execution& execution) {
    auto node = std::make_shared<Node>(ranks, capacity);
    execution.share(node->words.data(), ranks * sizeof(AdapterUse));
    for (size_t i = 0; i < ranks; ++i) {
      execution.thread([=] {
        AdapterShare& share = *node->shares[i];
        if (share.claim(wanted)) node->granted[i] = wanted;
        if (returns && node->granted[i] != 0) {
          share.set_claimed(wanted - 1);
          node->granted[i] = wanted - 1;
          if (share.claim(wanted)) node->granted[i] = wanted;
        }
      });
    }
    execution.finally([=] {
      uint32_t sum = 0;
      for (uint32_t one : node->granted) sum += one;
      require(sum <= capacity, "what is granted fits into the cache");
      require(node->shares[0]->queue_pairs() == sum, "what was refused is not counted");
    });
  };
}

TEST(AdapterShare, TwoClaimTheLastPlace) {
  const Bounds bounds{.preemptions = 3, .old_values = 2};
  const Program program = claims(2, 1, 1, false);
  const Outcome outcome = must_hold("adapter share, 2 ranks, 1 place", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "adapter_share"), 1u);
}

TEST(AdapterShare, ThreeClaimAndReturn) {
  must_hold("adapter share, 3 ranks, 4 places", {.preemptions = 2, .old_values = 1}, claims(3, 4, 2, true));
}

}  // namespace
}  // namespace tern::explore
