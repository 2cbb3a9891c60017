// NodeMemory: pieces of the node's segment that some of its ranks share: the flags and small data of collectives, small
// windows. It costs no system call, and is not reserved: larger windows are segments of their own (node_segments.h).
//
// Each rank has an arena of its own in the segment (address space only, until touched) and allocates from it; it sends
// the offset to the others in a message. A rank that writes a flag for which another may wait calls wake_if_asleep
// afterwards; a rank that waits for a flag registers a ShmCondition, so that it does not sleep through the change.
//
//   leader: allocate(bytes, offset) -> message(offset) -> all: at(offset) ... -> all have finished with it ->
//   leader: release
//
// Units: bytes. Thread rule: under the rank's lock; users synchronise accesses to the memory themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "base/assert.h"
#include "fabric/shm/node.h"

namespace tern {

class NodeMemory {
 public:
  explicit NodeMemory(ShmNode& node) : node_(node) {}
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  /// Whether `peer` maps the same segment.
  bool shares(PeerId peer) const { return node_.slot_of(peer) != node_.slots(); }
  /// Memory of this rank's arena, page-aligned, valid at every member under the same offset; its first `zeroed` bytes
  /// are zero. False: no room.
  bool allocate(size_t bytes, uint64_t& offset, size_t zeroed = SIZE_MAX);
  /// Of this rank's arena, in pieces that may be apart.
  size_t free_bytes();
  /// Returns it; no rank may use it any more. Only the rank that allocated it.
  void release(uint64_t offset);
  /// Returns it once `left` (in that memory) has reached `users`; later calls of allocate check that. Does not wait,
  /// and needs no memory: destructors call it.
  void release_when(uint64_t offset, const std::atomic<uint32_t>& left, uint32_t users) {
    Piece& piece = used_.at(begin_of(offset));
    TERN_DEBUG_ASSERT(!piece.left && users != 0);
    piece.left = &left;
    piece.users = users;
  }
  /// The address of an offset, of this rank's memory or another member's.
  std::byte* at(uint64_t offset) const { return node_.base() + offset; }

  /// Called after writing (with release order) something that the rank of `slot` may wait for.
  void wake_if_asleep(uint32_t slot) { node_.notify(slot); }
  /// Constant.
  uint32_t slot(PeerId peer) const { return node_.slot_of(peer); }

  /// `watch.ready()` is asked before this rank sleeps.
  void add_watch(ShmCondition& watch) { node_.conditions().push_back(&watch); }
  void remove_watch(ShmCondition& watch) { IntrusiveList<ShmCondition>::remove(&watch); }

 private:
  struct Piece {
    uint64_t end;                                 ///< in this rank's arena, a multiple of a page, as its begin
    const std::atomic<uint32_t>* left = nullptr;  ///< of release_when; null: nobody leaves yet
    uint32_t users = 0;
  };
  uint64_t begin_of(uint64_t offset) const { return offset - uint64_t(node_.arena(node_.my_slot()) - node_.base()); }
  void release_left();

  ShmNode& node_;
  std::map<uint64_t, Piece> used_;  ///< by where they begin in this rank's arena
};

}  // namespace tern
