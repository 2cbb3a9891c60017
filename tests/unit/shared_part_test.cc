// The words of a window's members in node memory: all see the same, and the memory serves the next windows.
#include "rma/shared_part.h"

#include <set>

#include "fabric/shm/node_memory.h"
#include "tests/sim/plain_segments.h"
#include "tests/unit/shm_helpers.h"

namespace tern::test {
namespace {

using rma::SharedPart;

constexpr int kRanks = 3;

void plan(SharedPart& part, int64_t bytes = 0) {
  part.plan({0, 1, 2}, {0, 1, 2}, {bytes, bytes, bytes}, false, 64, 8, true);
}

TEST(SharedPart, WordsInNodeMemoryServeManyWindows) {
  run_processes(kRanks, 16384, [](int rank, auto node, Common& common) {
    TestRank me(uint32_t(rank), kRanks, std::move(node), true, Tunables());
    NodeMemory memory(me.path->node());
    rma::PlainSegments segments;
    std::set<uint64_t> places;
    for (uint64_t round = 1; round <= 1000; ++round) {
      SharedPart part;
      plan(part);
      rma::PartKey key;
      if (rank == 0) {
        EXPECT_FALSE(part.allocate(segments, &memory));
        part.note_given();
        common.words[0] = part.key().node_offset;
      }
      common_fence(common, kRanks);
      key.node_offset = common.words[0];
      EXPECT_NE(key.node_offset, 0u);
      places.insert(key.node_offset);
      if (rank != 0) {
        EXPECT_FALSE(part.attach(segments, &memory, key));
      }
      for (int i = 0; i < kRanks; ++i) EXPECT_EQ(part.control(i).next.load(), 0u);  // zero again
      common_fence(common, kRanks);
      part.control(rank).next = uint32_t(rank) + 7;
      part.words(rank)[0] = round;
      common_fence(common, kRanks);
      for (int i = 0; i < kRanks; ++i) {
        EXPECT_EQ(part.control(i).next.load(), uint32_t(i) + 7);
        EXPECT_EQ(part.words(i)[0], round);
      }
      common_fence(common, kRanks);
    }
    // The last of a window's members may be leaving when the next one is made.
    EXPECT_LE(places.size(), size_t{kRanks});
    return true;
  });
}

TEST(SharedPart, WhatNobodyHasAttachedReturnsAtOnceAndDataHaveASegment) {
  run_processes(kRanks, 16384, [](int rank, auto node, Common& common) {
    TestRank me(uint32_t(rank), kRanks, std::move(node), true, Tunables());
    NodeMemory memory(me.path->node());
    rma::PlainSegments segments;
    std::set<uint64_t> places;
    for (int round = 0; rank == 0 && round < 10; ++round) {
      SharedPart part, of_data;
      plan(part);
      EXPECT_FALSE(part.allocate(segments, &memory));
      places.insert(part.key().node_offset);
      plan(of_data, 100);
      EXPECT_FALSE(of_data.allocate(segments, &memory));
      EXPECT_EQ(of_data.key().node_offset, 0u);
    }
    EXPECT_EQ(places.size(), rank == 0 ? 1u : 0u);
    common_fence(common, kRanks);
    return true;
  });
}

}  // namespace
}  // namespace tern::test
