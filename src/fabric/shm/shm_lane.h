// ShmLane: everything that a rank keeps about one peer of its node: the two rings (shm_ring_writer.h,
// shm_ring_reader.h), the messages that wait for room, the message that is arriving, and what copies between their
// memories need (shm_memory.h). The sending half first: a small message touches only its first line.
//
// Thread rule: Path's.
#pragma once

#include <sys/types.h>

#include "base/intrusive_list.h"
#include "fabric/path.h"
#include "fabric/shm/node.h"
#include "fabric/shm/shm_ring_reader.h"
#include "fabric/shm/shm_ring_writer.h"

namespace tern {

struct alignas(64) ShmLane : Lane {
  ShmLane(const ShmNode& node, uint32_t its_slot)
      : Lane(node.rank_of(its_slot)),
        slot(its_slot),
        out(node, its_slot, node.my_slot()),
        in(node, node.my_slot(), its_slot),
        out_progress(node.progress(its_slot, node.my_slot())),
        rates(node.rates(node.my_slot(), its_slot)) {}

  void update_open() { open = activated && !lost && !out.spilling() && queue.empty(); }
  /// Ends the spilling if it can.
  bool return_to_ring() {
    if (lost || !out.return_to_ring()) return false;
    update_open();
    return true;
  }

  bool open = false;  ///< a message may leave at once: activated, nothing queued, not spilling, not lost
  bool lost = false;
  bool activated = false;  ///< it knows that it must poll our ring
  bool queued = false;     ///< in the path's list of lanes with queued operations
  const uint32_t slot;
  shm::RingWriter out;
  IntrusiveList<SendOperation> queue;
  uint64_t stream_out_ns = 0;  ///< when the first of the queue began to leave, if it is to be timed; else 0

  alignas(64) shm::RingReader in;
  bool polled = false;        ///< its ring is among those polled
  bool landing_open = false;  ///< a message is arriving: the fields below
  wire::Header landing_header{};
  size_t landing_left = 0, landing_total = 0;
  Landing landing;
  uint64_t stream_in_ns = 0;  ///< when its sender began with the landing message, if it is timed; else 0

  // Of ShmMemory.
  const shm::Progress& out_progress;  ///< what the peer has consumed of this rank's ring
  shm::PairRates& rates;
  uint32_t beat_seen = 0;  ///< heartbeat of the peer when the last copy by cross-memory attach began
  int8_t attach = -1;      ///< cross-memory attach: 1 works, 0 not, -1 not tried yet
  bool attach_writes = false;
  pid_t pid = 0;  ///< of the peer, for cross-memory attach
};

}  // namespace tern
