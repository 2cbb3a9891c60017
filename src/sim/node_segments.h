// NodeSegments of a simulated node: plain memory of this operating-system process, the same address for all ranks of
// the node. Each segment is an allocation of its own, so that sanitizers see accesses beyond its end or after its
// release. Thread rule: one scheduler.
#pragma once

#include <map>
#include <memory>

#include "fabric/node_segments.h"
#include "sim/network.h"

namespace tern::sim {

/// The segments of all nodes of a machine; outlives the ranks' ends.
class SegmentTable {
 public:
  /// Segments that ranks release too late, or never, are freed with the table.
  struct Segment {
    std::unique_ptr<std::byte[], void (*)(std::byte*)> data;
    size_t bytes;
    uint32_t node;
    uint32_t users;
  };
  uint64_t next_id = 1;
  std::map<uint64_t, Segment> segments;  ///< by id
};

class SimSegments final : public NodeSegments {
 public:
  SimSegments(SegmentTable& table, const Network& network, PeerId rank)
      : table_(table), network_(network), node_(network.node_of(rank)) {}

  bool shares(PeerId peer) const override { return peer < network_.ranks() && network_.node_of(peer) == node_; }
  bool has_ended(PeerId peer) const override { return network_.is_lost(peer); }
  Error allocate(size_t bytes, NodeSegment& made, size_t alignment_bytes = kPageBytes) override;
  /// At the address of `allocate`, so aligned as its maker has asked.
  Error attach(const SegmentKey& key, NodeSegment& attached, size_t alignment_bytes = kPageBytes) override;
  void release(NodeSegment& segment) override;

 private:
  SegmentTable& table_;
  const Network& network_;
  const uint32_t node_;
};

}  // namespace tern::sim
