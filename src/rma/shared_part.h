// SharedPart: the memory of a window that the ranks of one node map, with words for each member: what accumulates
// exclude each other by, the member's lock, and what it reads of the others' epochs. Where the members' memory is their
// own (MPI_Win_create) there are only the words. A small part lies in node memory (fabric/shm/node_memory.h): a segment
// of its own costs some system calls.
//
//   control of member 0, 1, ...   epochs of 0, 1, ...   lock words of 0, 1, ...   cells of 0, 1, ...
//   data of member 0 | data of member 1 | ...
//
// Units: bytes. Thread rule: under the rank's lock; the words are atomic, since other ranks use them.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "fabric/node_segments.h"

namespace tern {
class NodeMemory;  // fabric/shm/node_memory.h
}

namespace tern::rma {

/// Of one member. All zero at first.
struct Control {
  /// Place + 1 of the member that changes the member's memory by an accumulate; 0: nobody.
  alignas(64) std::atomic<uint32_t> accumulating{0};
  // A lock whose tickets are served in order: a reader lets the next one in at once, a writer when it ends.
  alignas(64) std::atomic<uint32_t> next{0};
  std::atomic<uint32_t> serving{0};
  std::atomic<uint32_t> readers{0};
  /// Members (by their place on the node) that sleep until something of the lock changes, one bit each.
  static constexpr int kWaitWords = 4;
  std::atomic<uint64_t> waiting[kWaitWords] = {};
  /// 1: the member waits for its lock words (locks/) or its epochs' counts (node_epochs.h) to be written, and sleeps.
  std::atomic<uint32_t> sleeps{0};
  std::atomic<uint32_t> left{0};  ///< of member 0, in node memory: members that have released it
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(Control) == 128);

/// Of an origin and a target (node_cells.h). All zero at first.
struct NodeCell {
  /// What a put of 512 bytes needs, twice; a few more bytes are quicker by cross-memory attach.
  static constexpr size_t kRoomBytes = 1008;
  static constexpr size_t kFirstLineBytes = 48;  ///< of data, in one cache line with `turn`
  alignas(64) std::atomic<uint32_t> turn{0};     ///< odd: the origin asks; even: the target has answered
  uint32_t confirm = 0;                          ///< the number of the confirmation that the origin asks for
  uint32_t bytes = 0;                            ///< of data
  uint32_t reserved = 0;
  std::byte data[kRoomBytes] = {};
};
static_assert(sizeof(NodeCell) == 1024);

/// Names a part to the other members. Plain bytes.
struct PartKey {
  SegmentKey segment;
  uint64_t node_offset = 0;  ///< in node memory; 0: a segment has it
};

class SharedPart {
 public:
  /// So many members can have bits of their own; more of one node do without.
  static constexpr size_t kMaxMembers = size_t{64} * Control::kWaitWords;

  SharedPart() = default;
  SharedPart(const SharedPart&) = delete;
  SharedPart& operator=(const SharedPart&) = delete;
  ~SharedPart() { release(); }

  /// The window's ranks on this node, ascending, and the sizes of their memory. `apart`: each begins at a multiple of
  /// `alignment_bytes` (a power of two, at least a cache line); else the first does. `lock_words`: of each member.
  /// `cells`: there are some.
  void plan(std::vector<int> ranks, std::vector<PeerId> peers, const std::vector<int64_t>& sizes, bool apart,
            size_t alignment_bytes, size_t lock_words, bool cells);
  /// By the first member; the others attach what it has allocated. `node`: may be used; null: none.
  Error allocate(NodeSegments& segments, NodeMemory* node);
  Error attach(NodeSegments& segments, NodeMemory* node, const PartKey& key);
  /// By the first member: the others attach it from now on.
  void note_given() { given_ = true; }
  void release();

  bool empty() const { return segment_.empty(); }
  PartKey key() const { return {segment_.key, node_offset_}; }
  const std::vector<int>& ranks() const { return ranks_; }
  /// That member's process has ended.
  bool has_ended(int place) const { return segments_->has_ended(peers_[size_t(place)]); }
  /// -1: not a member.
  int place_of(int rank) const;
  std::byte* data(int place) const { return segment_.data + starts_[size_t(place)]; }
  uint64_t* words(int place) const {
    return reinterpret_cast<uint64_t*>(segment_.data + words_start_) + size_t(place) * words_each_;
  }
  bool has_cells() const { return has_cells_; }
  NodeCell& cell(int target, int origin) const {
    const size_t index = size_t(target) * ranks_.size() + size_t(origin);
    return reinterpret_cast<NodeCell*>(segment_.data + cells_start_)[index];
  }
  Control& control(int place) const { return reinterpret_cast<Control*>(segment_.data)[place]; }
  /// By origin or target (node_epochs.h): counts that every member writes for this one, by the writer's place.
  std::atomic<uint32_t>* posts(int place) const { return counts(2 * place); }
  std::atomic<uint32_t>* completions(int place) const { return counts(2 * place + 1); }
  /// What the member waits for was written, and it sleeps; the caller wakes it. The first who asks gets the answer yes.
  bool takes_sleeper(int place) const {
    std::atomic<uint32_t>& sleeps = control(place).sleeps;
    return sleeps.load(std::memory_order_seq_cst) != 0 && sleeps.exchange(0) != 0;
  }

 private:
  std::atomic<uint32_t>* counts(int row) const {
    return reinterpret_cast<std::atomic<uint32_t>*>(segment_.data + counts_start_) + size_t(row) * counts_each_;
  }

  std::vector<int> ranks_;
  std::vector<PeerId> peers_;
  std::vector<size_t> starts_;  ///< of their data
  size_t counts_start_ = 0, counts_each_ = 0;
  size_t words_start_ = 0, words_each_ = 0;
  size_t cells_start_ = 0;
  bool has_cells_ = false;
  size_t bytes_ = 0, alignment_bytes_ = 0;
  NodeSegments* segments_ = nullptr;
  NodeSegment segment_;
  // Where node memory has it; its address is `segment_`'s.
  NodeMemory* node_ = nullptr;
  uint64_t node_offset_ = 0;
  bool first_ = false, given_ = false;
};

/// While it lives nobody else changes the member's memory by an accumulate. A rank that has ended meanwhile is nobody:
/// what it has left half done is its own.
class AccumulateGuard {
 public:
  /// `member`: its place; negative: there is nobody else. `me`: this rank's place.
  AccumulateGuard(const SharedPart& part, int member, int me) {
    if (member < 0) return;
    control_ = &part.control(member);
    uint32_t owner = 0;
    if (!control_->accumulating.compare_exchange_strong(owner, uint32_t(me) + 1, std::memory_order_acquire))
      wait(part, uint32_t(me) + 1);
  }
  ~AccumulateGuard() {
    if (control_) control_->accumulating.store(0, std::memory_order_release);
  }
  AccumulateGuard(const AccumulateGuard&) = delete;
  AccumulateGuard& operator=(const AccumulateGuard&) = delete;

 private:
  void wait(const SharedPart& part, uint32_t mine);
  Control* control_ = nullptr;
};

}  // namespace tern::rma
