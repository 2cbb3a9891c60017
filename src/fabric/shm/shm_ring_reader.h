// RingReader: the ring of an ordered pair as its receiver sees it (segment.h): whether the next cell is here, where its
// data lies, and how much the sender does not yet know to be free again.
//
// Thread rule: under the receiver's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "fabric/path.h"
#include "fabric/shm/segment.h"
#include "fabric/shm/segment_view.h"

namespace tern::shm {

/// The low half of a cell's word.
inline CellKind kind_of(uint32_t info) { return CellKind(info >> kKindShift); }
inline uint32_t bytes_of(uint32_t info) { return info & ((uint32_t{1} << kKindShift) - 1); }

class RingReader {
 public:
  RingReader(const SegmentView& segment, uint32_t receiver, uint32_t sender)
      : cells_(segment.cells(receiver, sender)),
        ring_(segment.ring(receiver, sender)),
        progress_(&segment.progress(receiver, sender)),
        spill_(segment.spill(receiver, sender)),
        spill_cells_(segment.spill_cells()) {}

  /// The next cell of the ring; null: it is not here. Not while diverted().
  const Cell* next(uint32_t& info) const {
    const Cell& cell = cells_[expected_ % kCells];
    const uint64_t word = cell.word.load(std::memory_order_acquire);
    if (uint32_t(word >> 32) != expected_) return nullptr;
    info = uint32_t(word);
    return &cell;
  }
  /// As `next`, of the spill cells. Only while diverted().
  const SpillCell* next_spilled(uint32_t& info) const {
    TERN_DEBUG_ASSERT(diverted_ && spill_cells_ != 0);
    const SpillCell& cell = spill_[expected_ % spill_cells_];
    const uint64_t word = cell.word.load(std::memory_order_acquire);
    if (uint32_t(word >> 32) != expected_) return nullptr;
    info = uint32_t(word);
    return &cell;
  }
  bool next_is_here() const {
    uint32_t info;
    return diverted_ ? next_spilled(info) != nullptr : next(info) != nullptr;
  }
  /// The next message is in the spill cells.
  bool diverted() const { return diverted_; }
  /// A cell `moved` says so.
  void divert() {
    TERN_DEBUG_ASSERT(spill_cells_ != 0);
    diverted_ = true;
  }
  void return_to_ring() { diverted_ = false; }

  /// Shows the next message if it is here, as a whole, in the ring.
  bool peek(PeekedMessage& message) const {
    if (diverted_) [[unlikely]]
      return false;
    uint32_t info;
    const Cell* cell = next(info);
    if (!cell) return false;
    message.header = &cell->header;
    message.bytes = bytes_of(info);
    message.payload = cell->body;
    if (kind_of(info) == CellKind::message) [[likely]]
      return true;
    if (kind_of(info) == CellKind::moved) return false;
    const Chunk chunk = chunk_in(*cell);
    message.payload = ring_ + chunk.offset;
    return kind_of(info) == CellKind::first && message.bytes == chunk.total_bytes;
  }
  /// Goes on behind the message that peek has shown.
  void take() {
    const Cell& cell = cells_[expected_ % kCells];
    if (kind_of(uint32_t(cell.word.load(std::memory_order_relaxed))) != CellKind::message) consume(chunk_in(cell));
    step();
  }
  /// Goes on behind the next cell.
  void step() { ++expected_; }
  /// The data of a chunk is not needed any more.
  void consume(const Chunk& chunk) {
    TERN_DEBUG_ASSERT(chunk.end >= consumed_);
    consumed_ = chunk.end;
  }

  static Chunk chunk_in(const Cell& cell) {
    Chunk chunk;
    std::memcpy(&chunk, cell.body, sizeof chunk);
    return chunk;
  }
  const std::byte* data(const Chunk& chunk) const { return ring_ + chunk.offset; }

  /// Asks for the line of a cell that comes later in a burst.
  void prefetch_cell() const { __builtin_prefetch(&cells_[(expected_ + kCellsAhead) % kCells]); }
  /// Asks for the data of a message that comes later in a burst, if it was written already.
  void prefetch_chunk() const;

  /// Whether so much was consumed since the sender was last told that it should be told.
  bool owes(uint32_t cells, uint32_t bytes) const {
    return !(expected_ - 1 - published_ < cells && consumed_ - published_data_ < bytes);
  }
  /// Tells the sender what was consumed: it costs it a cache miss when it looks. False: it knows.
  bool give_back();

 private:
  /// Cells of a burst that are on their way to this core's cache while one is handled. A line from another core takes
  /// some 100 ns, a small message 25. Tried: 1 to 12 (20 M messages a second without, 21.5, 22, 23.5, 24 at 4, 24.3 at
  /// 6 and 8).
  static constexpr uint32_t kCellsAhead = 6;
  /// A message in the data ring: the data of the message this many cells ahead is fetched, too; of a long one its first
  /// bytes. (Rate of 64 to 256 B: 1.03 without, 1.16 with it, of the build before.)
  static constexpr uint32_t kChunksAhead = 3, kMaxChunkAhead = 1024;

  Cell* const cells_;
  uint32_t expected_ = 1;   ///< sequence number of the next cell
  uint32_t published_ = 0;  ///< cells that the sender knows to be consumed
  std::byte* const ring_;
  Progress* const progress_;
  uint64_t consumed_ = 0, published_data_ = 0;  ///< data ring
  SpillCell* const spill_;
  const uint32_t spill_cells_;
  bool diverted_ = false;
};

inline void RingReader::prefetch_chunk() const {
  const uint32_t sequence = expected_ + kChunksAhead;
  const Cell& cell = cells_[sequence % kCells];
  const uint64_t word = cell.word.load(std::memory_order_acquire);
  if (uint32_t(word >> 32) != sequence || kind_of(uint32_t(word)) == CellKind::message) return;
  const std::byte* start = data(chunk_in(cell));
  const uint32_t bytes = std::min<uint32_t>(bytes_of(uint32_t(word)), kMaxChunkAhead);
  for (uint32_t line = 0; line < bytes; line += kLine) __builtin_prefetch(start + line);
}

inline bool RingReader::give_back() {
  if (published_ == expected_ - 1 && published_data_ == consumed_) return false;
  published_ = expected_ - 1;
  TERN_DEBUG_ASSERT(int32_t(published_ - progress_->cells.load(std::memory_order_relaxed)) >= 0);
  TERN_DEBUG_ASSERT(consumed_ >= published_data_);
  published_data_ = consumed_;
  progress_->cells.store(published_, std::memory_order_release);
  progress_->data.store(published_data_, std::memory_order_release);
  return true;
}

}  // namespace tern::shm
