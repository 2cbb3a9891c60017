// NodeMemory: pieces of the node's segment that some of its ranks share, for the flags and small data of
// collectives.
//
// Each rank has an arena of its own in the segment (address space only, until touched) and allocates from it;
// it tells the others the offset in a message. Who writes a flag that another rank may be waiting for calls
// wake_if_asleep afterwards; who waits for a flag registers a ShmWatch, so that it does not sleep through it.
//
//   leader: allocate(bytes, offset) -> message(offset) -> all: at(offset) ... -> all have done with it ->
//   leader: release
//
// Units: bytes. Thread rule: under the rank's lock; what lies in the memory is the users' own affair.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "fabric/shm/node.h"

namespace tern {

class NodeMemory {
 public:
  explicit NodeMemory(ShmNode& node) : node_(node) {}
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  /// Whether `peer` maps the same segment.
  bool shares(PeerId peer) const { return node_.slot_of(peer) != node_.slots(); }
  /// Memory of my arena, page-aligned, valid at every member under the same offset; its first `zeroed` bytes are zero.
  /// False: no room.
  bool allocate(size_t bytes, uint64_t& offset, size_t zeroed = SIZE_MAX);
  /// Gives it back; nobody may use it any more. Only by who allocated it.
  void release(uint64_t offset);
  /// Gives it back once `left` (in that memory) has reached `users`: looked at by later calls of allocate.
  /// Nobody waits.
  void release_when(uint64_t offset, const std::atomic<uint32_t>& left, uint32_t users) {
    leaving_.push_back({offset, &left, users});
  }
  /// The address of an offset, mine or another member's.
  std::byte* at(uint64_t offset) const { return node_.base() + offset; }

  /// After writing (with release order) something that the rank of `slot` may wait for.
  void wake_if_asleep(uint32_t slot) { node_.notify(slot); }
  /// Constant.
  uint32_t slot(PeerId peer) const { return node_.slot_of(peer); }

  /// `watch.ready()` is asked whenever this rank is about to sleep.
  void add_watch(ShmWatch& watch) { node_.watches().push_back(&watch); }
  void remove_watch(ShmWatch& watch) { IntrusiveList<ShmWatch>::remove(&watch); }

 private:
  struct Leaving {
    uint64_t offset;
    const std::atomic<uint32_t>* left;
    uint32_t users;
  };
  void release_left();

  ShmNode& node_;
  std::vector<Leaving> leaving_;
  std::map<uint64_t, uint64_t> used_;  ///< in my arena: begin -> end, both multiples of a page
};

}  // namespace tern
