// NodeSegments on a real node: pieces of the node's one memfd (node.h), behind what the paths use.
//
//   the segment of the paths | space of slot 0 | space of slot 1 | ...        1 TiB each, of address space only
//   a segment, in its maker's space:  data | one page: Control
//
// Every rank of the node has that descriptor since it joined, so a key is an offset, and no descriptor is sent when a
// window is made. That needs no right to trace a process (pidfd_getfd, which containers often forbid), no process
// numbers valid in both (/proc/<pid>/fd), no socket that must be served, and no name in a file system. Memory is
// reserved by fallocate when it is allocated; the last rank to release it makes a hole again.
//
// Each rank allocates from its own space, and looks for free parts when it next allocates: the Control of a segment,
// which the maker keeps mapped, shows that its last user has released it.
// Source: man pages memfd_create(2), fallocate(2). Thread rule: as NodeSegments.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <utility>

#include "base/descriptor.h"
#include "fabric/node_segments.h"
#include "fabric/shm/node.h"

namespace tern {

class ShmSegments final : public NodeSegments {
 public:
  static constexpr uint64_t kSpaceBytes = uint64_t{1} << 40;  ///< of each rank: more than any node's memory per rank

  /// `node` has joined and outlives this.
  explicit ShmSegments(ShmNode& node) : node_(node) {}
  /// Where no path uses the node.
  explicit ShmSegments(std::unique_ptr<ShmNode> node) : owned_(std::move(node)), node_(*owned_) {}
  ~ShmSegments() override;
  ShmSegments(const ShmSegments&) = delete;
  ShmSegments& operator=(const ShmSegments&) = delete;

  bool shares(PeerId peer) const override { return node_.slot_of(peer) != node_.slots(); }
  bool has_ended(PeerId peer) const override;
  Error allocate(size_t bytes, NodeSegment& made, size_t alignment_bytes = kPageBytes) override;
  Error attach(const SegmentKey& key, NodeSegment& attached, size_t alignment_bytes = kPageBytes) override;
  void release(NodeSegment& segment) override;

  /// Segments made by this rank whose memory is not freed. For tests.
  size_t live();

 private:
  /// Stands behind the data of a segment.
  struct Control {
    std::atomic<uint64_t> bytes;    ///< of the data, as in the key
    std::atomic<uint32_t> users;    ///< ranks that have it mapped. Never rises again from 0
    std::atomic<uint32_t> emptied;  ///< the data's memory has been freed
  };
  struct Made {
    uint64_t end;      ///< in this rank's space
    Control* control;  ///< mapped until the space is reused
  };

  uint64_t space(uint32_t slot) const;
  uint64_t find_space(uint64_t bytes) const;
  Error reserve(uint64_t offset, uint64_t bytes) const;
  void give_back(uint64_t offset, uint64_t bytes) const;
  std::byte* map(uint64_t offset, uint64_t bytes, size_t alignment_bytes = kPageBytes) const;
  void collect();

  const std::unique_ptr<ShmNode> owned_;  ///< null: another one's
  ShmNode& node_;
  std::map<uint64_t, Made> made_;  ///< by beginning, in this rank's space
};

}  // namespace tern
