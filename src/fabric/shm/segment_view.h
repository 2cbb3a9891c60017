// SegmentView: where things are in a mapped segment (segment.h). Slots number the ranks of the node.
// Thread rule: constant once it is mapped; segment.h says who writes what there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "fabric/shm/segment.h"

namespace tern::shm {

class SegmentView {
 public:
  uint32_t slots() const { return layout_.ranks; }
  SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(base_); }
  RankBlock& block(uint32_t slot) const { return reinterpret_cast<RankBlock*>(base_ + layout_.blocks())[slot]; }
  /// What two ranks know of the speed of their copies: one for both directions.
  PairRates& rates(uint32_t slot, uint32_t other) const {
    const auto [low, high] = std::minmax(slot, other);
    return reinterpret_cast<PairRates*>(base_ + layout_.rates())[size_t{low} * layout_.ranks + high];
  }
  Progress& progress(uint32_t receiver, uint32_t sender) const {
    return reinterpret_cast<Progress*>(base_ + layout_.progress())[size_t{receiver} * layout_.ranks + sender];
  }
  Cell* cells(uint32_t receiver, uint32_t sender) const { return reinterpret_cast<Cell*>(pair(receiver, sender)); }
  std::byte* ring(uint32_t receiver, uint32_t sender) const { return pair(receiver, sender) + kCells * sizeof(Cell); }
  SpillCell* spill(uint32_t receiver, uint32_t sender) const {
    return reinterpret_cast<SpillCell*>(ring(receiver, sender) + layout_.ring_bytes);
  }
  size_t ring_bytes() const { return layout_.ring_bytes; }
  uint32_t spill_cells() const { return layout_.spill_cells; }
  std::byte* arena(uint32_t slot) const { return base_ + layout_.arenas() + slot * kArenaBytes; }
  /// Memory that a rank lends to its peers (CopyArbiter::lend): written by it, read by them.
  std::byte* lent(uint32_t slot) const { return base_ + layout_.lent() + slot * kLentBytes; }
  size_t segment_bytes() const { return layout_.total(); }
  std::byte* base() const { return base_; }

 protected:
  SegmentView() = default;
  ~SegmentView() = default;
  std::byte* pair(uint32_t receiver, uint32_t sender) const {
    TERN_DEBUG_ASSERT(receiver < slots() && sender < slots());
    return base_ + layout_.pairs() + (size_t{receiver} * layout_.ranks + sender) * layout_.pair_bytes();
  }

  std::byte* base_ = nullptr;
  Layout layout_;
};

}  // namespace tern::shm
