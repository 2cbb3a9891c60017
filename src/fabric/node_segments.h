// NodeSegments: memory shared by ranks of one node, of any size and lifetime: windows' memory (MPI 5.0, 12.2.2 and
// 12.2.3). One rank makes a segment and sends its key to the others; each of them attaches it somewhere in its own
// address space. The memory is freed when the last of them has released it.
//
//   maker: allocate(bytes, segment) -> message(segment.key) -> others: attach(key, segment)
//   ... all have attached (checked by the users) ... each, in any order: release(segment)
//
// A port: shm/shm_segments.h on a real node, sim/node_segments.h on a simulated one.
// Units: bytes. Thread rule: under the rank's lock; users synchronise accesses to the memory themselves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/types.h"

namespace tern {

/// Names a segment to the ranks of its node. Plain bytes, sent in messages; the receiver checks them.
struct SegmentKey {
  uint64_t words[2] = {0, 0};
  bool empty() const { return words[1] == 0; }
  bool operator==(const SegmentKey&) const = default;
};

/// A segment as one rank sees it. The rank that has allocated or attached it owns it until release.
struct NodeSegment {
  std::byte* data = nullptr;  ///< aligned as asked for
  size_t bytes = 0;
  SegmentKey key;
  bool empty() const { return data == nullptr; }
};

class NodeSegments {
 public:
  static constexpr size_t kPageBytes = 4096;  ///< the smallest page of the processors that this library knows
  virtual ~NodeSegments() = default;

  /// Whether `peer` can attach what this rank allocates, and the other way. Constant. True of this rank itself.
  virtual bool shares(PeerId peer) const = 0;
  /// Whether the process of a peer on this node has ended. Asks the system.
  virtual bool has_ended(PeerId peer) const = 0;
  /// A new segment, all zero. Its memory is reserved, so using it never raises a signal. `alignment_bytes` of its
  /// address here: a power of two, at least a page. Error: not enough memory, or a limit of the process, with the
  /// remedy.
  virtual Error allocate(size_t bytes, NodeSegment& made, size_t alignment_bytes = kPageBytes) = 0;
  /// Maps a segment that this or another rank of the node has allocated, with an alignment of its own. Error: there is
  /// no such segment (any more), or it cannot be mapped.
  virtual Error attach(const SegmentKey& key, NodeSegment& attached, size_t alignment_bytes = kPageBytes) = 0;
  /// Unmaps it; once for each allocate and attach. `segment` is empty afterwards. The last release frees the memory.
  /// What a rank has not released when it ends or dies is freed when the last rank of the node ends.
  virtual void release(NodeSegment& segment) = 0;
};

}  // namespace tern
