// Segments of simulated nodes: shared by the ranks of one node, refused to others, given back by the last.
#include <gtest/gtest.h>

#include "sim/machine.h"

namespace tern::sim {
namespace {

TEST(SimSegments, AreSharedByTheRanksOfANode) {
  WorldOptions options;
  options.ranks = 4;
  options.ranks_per_node = 2;
  Machine machine(options);
  SegmentKey key;
  size_t at_the_end = 1;
  Report report = machine.run([&](Machine::Rank& rank) {
    auto launcher = rank.make_launcher();
    auto segments = rank.make_segments();
    const uint32_t me = rank.index();
    for (PeerId peer = 0; peer < 4; ++peer) EXPECT_EQ(segments->shares(peer), peer / 2 == me / 2);
    EXPECT_FALSE(segments->shares(4));
    NodeSegment segment;
    if (me == 0) {
      EXPECT_FALSE(segments->allocate(1000, segment));
      for (size_t i = 0; i < 1000; ++i) EXPECT_EQ(segment.data[i], std::byte{});
      key = segment.key;
    }
    EXPECT_FALSE(launcher->fence());
    if (me == 1) {
      EXPECT_FALSE(segments->attach(key, segment));
      EXPECT_EQ(segment.bytes, 1000u);
      segment.data[999] = std::byte{3};
    } else if (me != 0) {
      EXPECT_TRUE(bool(segments->attach(key, segment))) << "another node";
      EXPECT_TRUE(segment.empty());
    }
    EXPECT_FALSE(launcher->fence());
    if (me == 0) {
      EXPECT_EQ(segment.data[999], std::byte{3});
    }
    segments->release(segment);
    EXPECT_TRUE(segment.empty());
    EXPECT_FALSE(launcher->fence());
    at_the_end = rank.machine.segments().segments.size();
    EXPECT_TRUE(bool(segments->attach(key, segment))) << "it is gone";
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  EXPECT_EQ(at_the_end, 0u);
}

}  // namespace
}  // namespace tern::sim
