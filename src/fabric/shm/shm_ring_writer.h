// RingWriter: the ring of an ordered pair as its sender sees it (segment.h): which cell is the next, where in the data
// ring a chunk goes, and what is known to be free. When the ring is full it goes on in the spill cells (shm_path.h).
//
// Thread rule: under the sender's lock. Positions and sequence numbers only grow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/copy.h"
#include "base/hints.h"
#include "fabric/path.h"
#include "fabric/shm/segment.h"
#include "fabric/shm/segment_view.h"

namespace tern::shm {

class RingWriter {
 public:
  RingWriter(const SegmentView& segment, uint32_t receiver, uint32_t sender);

  /// A cell is known to be free.
  bool has_cell() const { return int32_t(limit_ - next_) >= 0; }
  /// How many cells are free, at least; asks the receiver's progress when few are known to be.
  uint32_t free_cells();
  /// Whether `bytes` find room in the ring now, as whole chunks wherever its end is.
  bool fits(size_t bytes);
  /// Whether the receiver has consumed anything since this side last looked (it waits for room).
  bool space_came();

  /// A whole message of at most kInlineBytes into the next cell, which is known to be free.
  void send_inline(const wire::Header& header, const void* payload, size_t bytes) {
    TERN_DEBUG_ASSERT(!spilling_ && bytes <= kInlineBytes);
    Cell& cell = cells_[next_ % kCells];
    if (++streak_ >= kStream) {
      for (uint32_t ahead = streak_ == kStream ? 1 : kCellsAhead; ahead <= kCellsAhead; ++ahead)
        prefetch_to_write(&cells_[(next_ + ahead) % kCells]);
    }
    wire::copy_header(cell.header, header);
    copy_upto_32(cell.body, payload, bytes);
    publish(CellKind::message, uint32_t(bytes));
  }
  /// A whole longer message that `fits`.
  void send_chunks(const wire::Header& header, const std::byte* payload, size_t bytes);
  /// The next part of an operation: all of it if it has at most kInlineBytes, else a chunk. False: there is no room.
  /// `began_ns`: as Chunk's.
  bool send_part(SendOperation& operation, uint64_t began_ns);

  bool spilling() const { return spilling_; }
  /// A message behind everything that was sent before, into the spill cells. False: it is too long, or they are full.
  bool spill(const wire::Header& header, const void* payload, size_t bytes);
  /// Ends the spilling when half of the ring is free, so that a rank that is behind is not sent back and forth.
  /// False: it is not.
  bool return_to_ring();

  /// Something has arrived from there: what is sent is no stream.
  void note_arrival() { streak_ = 0; }
  /// Cells that the receiver has consumed. Any rank's own data may be in the middle of being consumed.
  uint32_t consumed_cells() const { return progress_->cells.load(std::memory_order_relaxed); }

 private:
  /// The distance, in messages, at which cells are fetched for writing while a stream of small messages goes out:
  /// otherwise the store buffer fills with cells that wait for their lines (8 B streams: 175 to 62 ns a message).
  static constexpr uint32_t kCellsAhead = 8;
  /// The number of messages without an answer that make a stream. A ping-pong would only pay for the lines (8 B: 0.30
  /// to 0.37 us).
  static constexpr uint32_t kStream = 2;

  void publish(CellKind kind, uint32_t bytes) {
    TERN_DEBUG_ASSERT(!spilling_ && bytes < (uint32_t{1} << kKindShift) && int32_t(limit_ - next_) >= -1);
    cells_[next_ % kCells].word.store(cell_word(next_, kind, bytes), std::memory_order_release);
    ++next_;
  }
  uint32_t chunk_bytes(size_t left) const { return left < largest_chunk_ ? uint32_t(left) : largest_chunk_; }
  std::byte* reserve(uint32_t bytes, Chunk& chunk);
  void prefetch_data(uint32_t offset);

  // A small message touches only these.
  uint32_t next_ = 1;              ///< sequence number of the next cell
  uint32_t limit_ = kUsableCells;  ///< the last sequence number known to have a free cell
  Cell* const cells_;
  std::byte* const ring_;
  Progress* const progress_;  ///< the receiver's
  uint32_t streak_ = 0;       ///< small messages sent since the last arrival from there
  bool spilling_ = false;     ///< messages go to the spill cells
  bool grow_ = false;         ///< the used part of the data ring was full

  uint64_t head_ = 0;           ///< data ring: position where the next chunk begins
  uint64_t consumed_seen_ = 0;  ///< data ring position up to which it is known to be free again
  uint32_t offset_ = 0;         ///< of head_ in the ring
  uint32_t capacity_;           ///< used part of the ring: grows to the whole ring when it was full
  const uint32_t ring_bytes_, largest_chunk_;
  const bool by_string_;  ///< string copies (base/string_copy.h)
  const uint32_t spill_cells_;
  SpillCell* const spill_;
};

}  // namespace tern::shm
