// NodeSegments for tests of one part: plain memory, which the test's threads share. Thread rule: none; one test.
#pragma once

#include <cstdlib>
#include <cstring>
#include <set>

#include "fabric/node_segments.h"

namespace tern::rma {

class PlainSegments final : public NodeSegments {
 public:
  bool shares(PeerId) const override { return true; }
  bool has_ended(PeerId peer) const override { return ended.contains(peer); }
  Error allocate(size_t bytes, NodeSegment& made, size_t alignment_bytes) override {
    bytes = (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    made.data = static_cast<std::byte*>(std::aligned_alloc(alignment_bytes, bytes));
    std::memset(made.data, 0, bytes);
    made.bytes = bytes;
    made.key.words[1] = 1;
    return {};
  }
  Error attach(const SegmentKey&, NodeSegment&, size_t) override { return Error(ErrorClass::other, "not here"); }
  void release(NodeSegment& segment) override {
    std::free(segment.data);
    segment = NodeSegment();
  }
  std::set<PeerId> ended;
};

}  // namespace tern::rma
