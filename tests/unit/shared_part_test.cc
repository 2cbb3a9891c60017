// Small parts of windows in node memory: all members see the same, and the memory serves the next windows.
#include "rma/shared_part.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <set>

#include "coll/node_team.h"
#include "fabric/shm/node_memory.h"
#include "tests/sim/plain_segments.h"
#include "tests/unit/shm_helpers.h"

namespace tern::test {
namespace {

using rma::SharedPart;

constexpr int kRanks = 3;

void plan(SharedPart& part, int64_t bytes = 0, size_t alignment_bytes = 64) {
  part.plan({0, 1, 2}, {0, 1, 2}, {bytes, bytes, bytes}, false, alignment_bytes, 8, true);
}

/// One rank of a node.
struct Member {
  Member(int number, std::unique_ptr<ShmNode> node)
      : rank(number), me(uint32_t(number), kRanks, std::move(node), true, Tunables()), memory(me.path->node()) {}
  const int rank;
  TestRank me;
  NodeMemory memory;
  rma::PlainSegments segments;
};

void run_members(const std::function<void(Member&, Common&)>& body) {
  run_processes(kRanks, 16384, [&](int rank, std::unique_ptr<ShmNode> node, Common& common) {
    Member member(rank, std::move(node));
    body(member, common);
    common_fence(common, kRanks);
    return true;
  });
}

TEST(SharedPart, NodeMemoryServesManyWindows) {
  run_members([](Member& member, Common& common) {
    constexpr size_t kDataBytes = 1000;
    std::set<uint64_t> places;
    for (uint64_t round = 1; round <= 1000; ++round) {
      SharedPart part;
      plan(part, kDataBytes);
      if (member.rank == 0) {
        EXPECT_FALSE(part.allocate(member.segments, &member.memory));
        part.note_given();
        common.words[0] = part.key().node_offset;
      }
      common_fence(common, kRanks);
      rma::PartKey key;
      key.node_offset = common.words[0];
      EXPECT_NE(key.node_offset, 0u);
      places.insert(key.node_offset);
      if (member.rank != 0) {
        EXPECT_FALSE(part.attach(member.segments, &member.memory, key));
      }
      for (int i = 0; i < kRanks; ++i) {
        EXPECT_EQ(part.control(i).next.load(), 0u);
        EXPECT_EQ(std::count(part.data(i), part.data(i) + kDataBytes, std::byte{}), ptrdiff_t(kDataBytes));
      }
      common_fence(common, kRanks);
      std::memset(part.data(member.rank), member.rank + 1, kDataBytes);
      part.control(member.rank).next = uint32_t(member.rank) + 7;
      part.words(member.rank)[0] = round;
      common_fence(common, kRanks);
      for (int i = 0; i < kRanks; ++i) {
        EXPECT_EQ(part.control(i).next.load(), uint32_t(i) + 7);
        EXPECT_EQ(part.words(i)[0], round);
        EXPECT_EQ(std::count(part.data(i), part.data(i) + kDataBytes, std::byte(i + 1)), ptrdiff_t(kDataBytes));
      }
      common_fence(common, kRanks);
    }
    // The last of a window's members may be leaving when the next one is made.
    EXPECT_LE(places.size(), size_t{kRanks});
  });
}

TEST(SharedPart, WhatNobodyHasAttachedReturnsAtOnce) {
  run_members([](Member& member, Common&) {
    std::set<uint64_t> places;
    for (int round = 0; member.rank == 0 && round < 10; ++round) {
      SharedPart part;
      plan(part);
      EXPECT_FALSE(part.allocate(member.segments, &member.memory));
      places.insert(part.key().node_offset);
    }
    EXPECT_EQ(places.size(), member.rank == 0 ? 1u : 0u);
  });
}

TEST(SharedPart, WhatIsLargeOrAlignedOrWouldTakeTheRoomOfCollectivesHasASegment) {
  run_members([](Member& member, Common&) {
    if (member.rank != 0) return;
    SharedPart large, aligned;
    plan(large, 64 << 10);
    EXPECT_FALSE(large.allocate(member.segments, &member.memory));
    EXPECT_EQ(large.key().node_offset, 0u);
    plan(aligned, 100, 8192);
    EXPECT_FALSE(aligned.allocate(member.segments, &member.memory));
    EXPECT_EQ(aligned.key().node_offset, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned.data(0)) % 8192, 0u);
    std::deque<SharedPart> many;
    do {
      plan(many.emplace_back());
      EXPECT_FALSE(many.back().allocate(member.segments, &member.memory));
    } while (many.back().key().node_offset != 0 && many.size() < 1000);
    EXPECT_GT(many.size(), 50u);
    uint64_t offset = 0;
    EXPECT_TRUE(member.memory.allocate(NodeTeam::bytes_for(NodeTeam::kMaxMembers), offset));
  });
}

}  // namespace
}  // namespace tern::test
