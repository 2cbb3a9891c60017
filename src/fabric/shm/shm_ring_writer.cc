#include "fabric/shm/shm_ring_writer.h"

#include <algorithm>
#include <cstring>

#include "base/string_copy.h"

namespace tern::shm {
namespace {

constexpr uint32_t kAlign = uint32_t{kLine};  // of chunks in the data ring: whole lines
inline uint32_t aligned(size_t bytes) { return uint32_t((bytes + kAlign - 1) & ~size_t{kAlign - 1}); }

/// Part of a data ring that is used at first, so that small messages stay in the second-level cache. It grows to the
/// whole ring when it was full.
constexpr uint32_t kFirstCapacity = 32768;
/// Longest chunk of a message in the data ring; measured (shm_path.h).
constexpr size_t kMaxChunkBytes = 8192;
/// The distance at which lines of the data ring are fetched ahead: as many lines as cells (kCellsAhead).
constexpr uint32_t kBytesAhead = 512;
constexpr uint32_t kMaxAhead = 1024;  ///< a longer message's own copy takes longer than its lines' fetch
/// After a message of this size the lines of the next one are fetched for writing, while this one is received: its
/// copy then need not wait for them (one way, 2 KiB: 0.74 to 0.45 us, 8 KiB: 1.9 to 1.1). A shorter message has few
/// lines, which are fetched while it is written (64 B: 0.20 to 0.21 us). A longer one would fill the first-level cache.
constexpr size_t kMinNext = 256, kMaxNext = 16384;
/// With string copies (base/string_copy.h): the shortest such copy, and the longest message after which lines are
/// fetched. The copy of a longer one writes them without (8 KiB: 8 GB/s if they are fetched, 16 if not).
constexpr size_t kMinString = 512, kMaxNextOfString = 2048;

}  // namespace

RingWriter::RingWriter(const SegmentView& segment, uint32_t receiver, uint32_t sender)
    : cells_(segment.cells(receiver, sender)),
      ring_(segment.ring(receiver, sender)),
      progress_(&segment.progress(receiver, sender)),
      capacity_(uint32_t(std::min<size_t>(segment.ring_bytes(), kFirstCapacity))),
      ring_bytes_(uint32_t(segment.ring_bytes())),
      largest_chunk_(uint32_t(std::min<size_t>(segment.ring_bytes() / 8, kMaxChunkBytes))),
      by_string_(has_string_copy()),
      spill_cells_(segment.spill_cells()),
      spill_(segment.spill(receiver, sender)) {
  TERN_DEBUG_ASSERT(receiver != sender && capacity_ <= ring_bytes_);
}

uint32_t RingWriter::free_cells() {
  int32_t free = int32_t(limit_ - next_) + 1;
  if (free < int32_t(kCells / 2)) {
    limit_ = progress_->cells.load(std::memory_order_acquire) + kUsableCells;
    free = int32_t(limit_ - next_) + 1;
  }
  return uint32_t(std::max(free, 0));  // less than none: while spilling
}

void RingWriter::send_chunks(const wire::Header& header, const std::byte* payload, size_t bytes) {
  for (size_t sent = 0; sent < bytes;) {
    const uint32_t size = chunk_bytes(bytes - sent);
    Chunk chunk;
    std::byte* place = reserve(size, chunk);
    TERN_DEBUG_ASSERT(place);
    if (bytes <= kMaxAhead && ++streak_ >= kStream) {
      prefetch_to_write(&cells_[(next_ + kCellsAhead) % kCells]);
      for (uint32_t line = 0; line < size; line += kAlign) prefetch_data(chunk.offset + kBytesAhead + line);
    }
    if (by_string_ && size >= kMinString) string_copy(place, payload + sent, size);
    else std::memcpy(place, payload + sent, size);
    chunk.total_bytes = bytes;
    TERN_DEBUG_ASSERT(size != 0 && chunk.offset + size <= capacity_);
    chunk.began_ns = 0;
    Cell& cell = cells_[next_ % kCells];
    if (sent == 0) wire::copy_header(cell.header, header);
    put_chunk(cell.body, chunk);
    publish(sent == 0 ? CellKind::first : CellKind::continued, size);
    sent += size;
  }
  const bool fetched = bytes <= kMaxAhead && streak_ >= kStream;
  if (!fetched && bytes >= kMinNext && bytes <= (by_string_ ? kMaxNextOfString : kMaxNext)) {
    for (uint32_t line = 0; line < bytes; line += kAlign) prefetch_data(offset_ + line);
  }
}

bool RingWriter::send_part(SendOperation& operation, uint64_t began_ns) {
  Cursor& payload = operation.payload;
  if (free_cells() == 0) return false;
  Cell& cell = cells_[next_ % kCells];
  if (operation.total_bytes <= kInlineBytes) {
    wire::copy_header(cell.header, operation.header);
    payload.pack(cell.body, operation.total_bytes);
    TERN_DEBUG_ASSERT(payload.remaining() == 0);
    operation.header_sent = true;
    publish(CellKind::message, uint32_t(operation.total_bytes));
    return true;
  }
  const uint32_t size = chunk_bytes(payload.remaining());
  Chunk chunk;
  std::byte* place = reserve(size, chunk);
  if (!place) return false;
  payload.pack(place, size);
  chunk.total_bytes = operation.total_bytes;
  chunk.began_ns = began_ns;
  if (!operation.header_sent) wire::copy_header(cell.header, operation.header);
  put_chunk(cell.body, chunk);
  publish(operation.header_sent ? CellKind::continued : CellKind::first, size);
  operation.header_sent = true;
  return true;
}

/// A line of the data ring, for writing. `offset`: less than twice the used part.
void RingWriter::prefetch_data(uint32_t offset) {
  prefetch_to_write(ring_ + (offset < capacity_ ? offset : offset - capacity_));
}

bool RingWriter::fits(size_t bytes) {
  const auto chunks = uint32_t((bytes + largest_chunk_ - 1) / largest_chunk_);
  TERN_DEBUG_ASSERT(chunks != 0 && head_ >= consumed_seen_);
  if (free_cells() < chunks) return false;
  const size_t need = aligned(bytes) + size_t{chunks} * kAlign + std::min<size_t>(bytes, largest_chunk_);
  if (capacity_ - (head_ - consumed_seen_) >= need) return true;
  consumed_seen_ = progress_->data.load(std::memory_order_acquire);
  if (capacity_ - (head_ - consumed_seen_) >= need) return true;
  grow_ = true;
  return false;
}

/// Room for one chunk in one piece; null when there is none. Fills in `offset` and `end`.
std::byte* RingWriter::reserve(uint32_t bytes, Chunk& chunk) {
  const uint32_t need = aligned(bytes);
  TERN_DEBUG_ASSERT(bytes != 0 && offset_ <= capacity_ && head_ >= consumed_seen_);
  bool wrap = false;
  uint32_t gap = 0;
  if (offset_ + need > capacity_) {
    // At the end. The part beyond it is surely unused if nothing of the previous lap is left: then it may be
    // added.
    const uint64_t lap_start = head_ - offset_;
    if (grow_ && capacity_ < ring_bytes_ && lap_start <= consumed_seen_) {
      capacity_ = std::min(2 * capacity_, ring_bytes_);
      grow_ = false;
    }
    wrap = offset_ + need > capacity_;
    if (wrap) gap = capacity_ - offset_;  // may be nothing
  }
  if (capacity_ - (head_ - consumed_seen_) < gap + need) {
    consumed_seen_ = progress_->data.load(std::memory_order_acquire);
    if (capacity_ - (head_ - consumed_seen_) < gap + need) {
      grow_ = true;
      return nullptr;
    }
  }
  if (wrap) {
    head_ += gap;
    offset_ = 0;
    TERN_DEBUG_ASSERT(gap <= capacity_);
  }
  TERN_DEBUG_ASSERT(offset_ + need <= capacity_ && head_ + need - consumed_seen_ <= capacity_);
  chunk.offset = offset_;
  head_ += need;
  offset_ += need;
  chunk.end = head_;
  chunk.reserved = 0;
  return ring_ + chunk.offset;
}

bool RingWriter::spill(const wire::Header& header, const void* payload, size_t bytes) {
  if (bytes > sizeof(SpillCell::body)) return false;
  const uint32_t consumed = progress_->cells.load(std::memory_order_acquire);
  limit_ = consumed + kUsableCells;
  // One is left for the way back to the ring.
  if (next_ + (spilling_ ? 0 : 1) - consumed >= spill_cells_) return false;
  if (!spilling_) {
    publish(CellKind::moved, 0);
    spilling_ = true;
  }
  TERN_ASSERT(spill_cells_ != 0);
  SpillCell& cell = spill_[next_ % spill_cells_];
  wire::copy_header(cell.header, header);
  if (bytes != 0) std::memcpy(cell.body, payload, bytes);
  cell.word.store(cell_word(next_, CellKind::message, uint32_t(bytes)), std::memory_order_release);
  ++next_;
  return true;
}

bool RingWriter::return_to_ring() {
  if (free_cells() < kCells / 2) return false;
  TERN_ASSERT(spilling_);
  spill_[next_ % spill_cells_].word.store(cell_word(next_, CellKind::moved, 0), std::memory_order_release);
  ++next_;
  spilling_ = false;
  return true;
}

bool RingWriter::space_came() {
  const uint32_t limit = progress_->cells.load(std::memory_order_acquire) + kUsableCells;
  const uint64_t consumed = progress_->data.load(std::memory_order_acquire);
  const bool came = limit != limit_ || consumed != consumed_seen_;
  TERN_DEBUG_ASSERT(int32_t(limit - limit_) >= 0 && consumed >= consumed_seen_ && consumed <= head_);
  limit_ = limit;
  consumed_seen_ = consumed;
  return came;
}

}  // namespace tern::shm
