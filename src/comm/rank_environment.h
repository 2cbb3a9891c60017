// What all communicators of a rank have in common: the way of their messages, and the memory that the floors above
// share. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>

#include "base/scratch.h"
#include "p2p/point_to_point.h"

namespace tern {

class Communicator;
class Engines;       // p2p/engines.h
class NodeMemory;    // fabric/shm/node_memory.h
class NodeSegments;  // fabric/node_segments.h

/// Owned by the rank (process/process.h); outlives its communicators.
struct RankEnvironment {
  explicit RankEnvironment(PointToPoint& messages) : p2p(messages) {}

  PointToPoint& p2p;
  /// For threads that do not wait for each other; null: none (not MPI_THREAD_MULTIPLE). Not owned.
  Engines* engines = nullptr;
  /// Memory that this rank shares with others of its node, for collectives and files; null: none. Not owned.
  NodeMemory* node_memory = nullptr;
  /// Memory for windows that this rank shares with others of its node; null: none. Not owned.
  NodeSegments* node_segments = nullptr;
  /// They are for every window. False: only for those whose memory must be shared (MPI_Win_allocate_shared), since
  /// TERN_PATH leaves shared memory out.
  bool segments_for_all = true;
  /// A number on which the ranks of this node agree, and which no other node has.
  uint64_t node_name = 0;
  /// This node has more ranks than cores, as far as this rank knows.
  bool shares_cores = false;
  /// PathProperties::part_bytes, the largest of the paths to ranks with which it shares no memory; 1: there are none.
  size_t part_bytes = 1;
  /// The blocking collective that this rank is in, for the hang report; null: none.
  const Communicator* inside = nullptr;
  int inside_root = -1;  ///< -1: it has none
  /// For intermediate results.
  Scratch scratch;
};

}  // namespace tern
