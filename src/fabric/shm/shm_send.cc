// The sending half of ShmPath.
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/copy.h"
#include "base/hints.h"
#include "fabric/shm/shm_path.h"

namespace tern {
namespace {

constexpr uint32_t kAlign = uint32_t{shm::kLine};  // of chunks in the data ring: whole lines
inline uint32_t aligned(size_t bytes) { return uint32_t((bytes + kAlign - 1) & ~size_t{kAlign - 1}); }

/// While a stream of small messages goes out, the cell so many messages ahead is fetched for writing: otherwise the
/// store buffer fills with cells that wait for their lines (8 B streams: 175 to 62 ns a message).
constexpr uint32_t kCellsAhead = 8;
/// For data in the ring, the lines so many bytes ahead: as many lines as cells.
constexpr uint32_t kBytesAhead = 512;
constexpr uint32_t kMaxAhead = 1024;  ///< a longer message's own copy takes longer than its lines' fetch
/// After a message of this size the lines of the next one are fetched for writing, while this one is received: its
/// copy then need not wait for them (one way, 2 KiB: 0.74 to 0.45 us, 8 KiB: 1.9 to 1.1). A shorter message has few
/// lines, which are fetched while it is written (64 B: 0.20 to 0.21 us). A longer one would fill the first-level cache.
constexpr size_t kMinNext = 256, kMaxNext = 16384;
/// So many messages without an answer are a stream; a ping-pong would only pay for the lines (8 B: 0.30 to 0.37 us).
constexpr uint32_t kStream = 2;

}  // namespace

uint32_t ShmPath::chunk_bytes(size_t left) const { return uint32_t(std::min<size_t>(largest_chunk_, left)); }

uint32_t ShmPath::free_cells(Peer& peer) {
  int32_t free = int32_t(peer.limit - peer.next) + 1;
  if (free < int32_t(shm::kCells / 2)) {
    peer.limit = peer.out_progress->cells.load(std::memory_order_acquire) + shm::kUsableCells;
    free = int32_t(peer.limit - peer.next) + 1;
  }
  return uint32_t(std::max(free, 0));  // less than none: while spilling
}

void ShmPath::publish(Peer& peer, shm::CellKind kind, uint32_t bytes) {
  TERN_DEBUG_ASSERT(!peer.spilling && bytes < (uint32_t{1} << shm::kKindShift) &&
                    int32_t(peer.limit - peer.next) >= -1);
  peer.out_cells[peer.next % shm::kCells].word.store(shm::cell_word(peer.next, kind, bytes), std::memory_order_release);
  ++peer.next;
}

bool ShmPath::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  auto& peer = static_cast<Peer&>(lane);
  if (bytes > shm::kInlineBytes || !peer.open || int32_t(peer.limit - peer.next) < 0) [[unlikely]] {
    return try_send_slow(peer, header, payload, bytes);
  }
  shm::Cell& cell = peer.out_cells[peer.next % shm::kCells];
  if (++peer.streak >= kStream) {
    for (uint32_t ahead = peer.streak == kStream ? 1 : kCellsAhead; ahead <= kCellsAhead; ++ahead) {
      prefetch_to_write(&peer.out_cells[(peer.next + ahead) % shm::kCells]);
    }
  }
  TERN_DEBUG_ASSERT(peer.activated && peer.queue.empty() && !peer.spilling);
  wire::copy_header(cell.header, header);
  copy_upto_32(cell.body, payload, bytes);
  publish(peer, shm::CellKind::message, uint32_t(bytes));
  node_->notify(peer.slot);
  return true;
}

/// The first message to that rank: it must know that it has a ring to poll.
void ShmPath::activate(Peer& peer) {
  const uint32_t me = node_->my_slot();
  node_->block(peer.slot).senders[me / 64].fetch_or(uint64_t{1} << (me % 64), std::memory_order_seq_cst);
  TERN_DEBUG_ASSERT(!peer.activated);
  peer.activated = true;
  update_open(peer);
}

bool ShmPath::try_send_slow(Peer& peer, const wire::Header& header, const void* payload, size_t bytes) {
  TERN_DEBUG_ASSERT(bytes <= properties_.eager_bytes || bytes <= kAlwaysWholeBytes);
  if (!peer.activated) activate(peer);
  if (peer.spilling && !return_to_ring(peer)) return false;
  if (!peer.open) return false;
  if (bytes <= shm::kInlineBytes) {
    if (free_cells(peer) == 0) return false;
    return try_send(peer, header, payload, bytes);
  }
  const auto chunks = uint32_t((bytes + largest_chunk_ - 1) / largest_chunk_);
  if (!fits(peer, bytes, chunks)) return false;
  const auto* source = static_cast<const std::byte*>(payload);
  for (size_t sent = 0; sent < bytes;) {
    const uint32_t size = chunk_bytes(bytes - sent);
    shm::Chunk chunk;
    std::byte* place = reserve(peer, size, chunk);
    TERN_DEBUG_ASSERT(place);
    if (bytes <= kMaxAhead && ++peer.streak >= kStream) {
      prefetch_to_write(&peer.out_cells[(peer.next + kCellsAhead) % shm::kCells]);
      for (uint32_t line = 0; line < size; line += kAlign) prefetch_data(peer, chunk.offset + kBytesAhead + line);
    }
    std::memcpy(place, source + sent, size);
    chunk.total_bytes = bytes;
    TERN_DEBUG_ASSERT(size != 0 && chunk.offset + size <= peer.capacity);
    chunk.began_ns = 0;
    shm::Cell& cell = peer.out_cells[peer.next % shm::kCells];
    if (sent == 0) wire::copy_header(cell.header, header);
    shm::put_chunk(cell.body, chunk);
    publish(peer, sent == 0 ? shm::CellKind::first : shm::CellKind::continued, size);
    sent += size;
  }
  node_->notify(peer.slot);
  const bool fetched = bytes <= kMaxAhead && peer.streak >= kStream;
  if (!fetched && bytes >= kMinNext && bytes <= kMaxNext) {
    for (uint32_t line = 0; line < bytes; line += kAlign) prefetch_data(peer, peer.offset + line);
  }
  return true;
}

/// A line of the data ring, for writing. `offset`: less than twice the used part.
void ShmPath::prefetch_data(Peer& peer, uint32_t offset) {
  prefetch_to_write(peer.out_ring + (offset < peer.capacity ? offset : offset - peer.capacity));
}

/// Whether `bytes` in `chunks` pieces find room now, whatever the gap before the end of the ring.
bool ShmPath::fits(Peer& peer, size_t bytes, uint32_t chunks) {
  TERN_DEBUG_ASSERT(chunks != 0 && peer.head >= peer.consumed_seen);
  if (free_cells(peer) < chunks) return false;
  const size_t need = aligned(bytes) + size_t{chunks} * kAlign + std::min<size_t>(bytes, largest_chunk_);
  if (peer.capacity - (peer.head - peer.consumed_seen) >= need) return true;
  peer.consumed_seen = peer.out_progress->data.load(std::memory_order_acquire);
  if (peer.capacity - (peer.head - peer.consumed_seen) >= need) return true;
  peer.grow = true;
  return false;
}

/// Room for one chunk in one piece; null when there is none. Fills in `offset` and `end`.
std::byte* ShmPath::reserve(Peer& peer, uint32_t bytes, shm::Chunk& chunk) {
  const uint32_t need = aligned(bytes);
  TERN_DEBUG_ASSERT(bytes != 0 && peer.offset <= peer.capacity && peer.head >= peer.consumed_seen);
  bool wrap = false;
  uint32_t gap = 0;
  if (peer.offset + need > peer.capacity) {
    // At the end. The part beyond it is surely unused if nothing of the previous lap is left: then it may be
    // added.
    const uint64_t lap_start = peer.head - peer.offset;
    const uint32_t most = uint32_t(node_->ring_bytes());
    if (peer.grow && peer.capacity < most && lap_start <= peer.consumed_seen) {
      peer.capacity = std::min(2 * peer.capacity, most);
      TERN_DEBUG_ASSERT(peer.capacity <= node_->ring_bytes());
      peer.grow = false;
    }
    wrap = peer.offset + need > peer.capacity;
    if (wrap) gap = peer.capacity - peer.offset;  // may be nothing
  }
  if (peer.capacity - (peer.head - peer.consumed_seen) < gap + need) {
    peer.consumed_seen = peer.out_progress->data.load(std::memory_order_acquire);
    if (peer.capacity - (peer.head - peer.consumed_seen) < gap + need) {
      peer.grow = true;
      return nullptr;
    }
  }
  if (wrap) {
    peer.head += gap;
    peer.offset = 0;
    TERN_DEBUG_ASSERT(gap <= peer.capacity);
  }
  TERN_DEBUG_ASSERT(peer.offset + need <= peer.capacity && peer.head + need - peer.consumed_seen <= peer.capacity);
  chunk.offset = peer.offset;
  peer.head += need;
  peer.offset += need;
  chunk.end = peer.head;
  chunk.reserved = 0;
  return peer.out_ring + chunk.offset;
}

// --- Spill cells

bool ShmPath::try_post(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  auto& peer = static_cast<Peer&>(lane);
  return try_send(lane, header, payload, bytes) || (peer.queue.empty() && spill(peer, header, payload, bytes));
}

/// Behind everything sent before: of that nothing is queued in this rank's memory any more.
bool ShmPath::spill(Peer& peer, const wire::Header& header, const void* payload, size_t bytes) {
  if (bytes > sizeof(shm::SpillCell::body) || peer.lost) return false;
  const uint32_t consumed = peer.out_progress->cells.load(std::memory_order_acquire);
  peer.limit = consumed + shm::kUsableCells;
  // One is left for the way back to the ring.
  if (peer.next + (peer.spilling ? 0 : 1) - consumed >= node_->spill_cells()) return false;
  if (!peer.spilling) {
    publish(peer, shm::CellKind::moved, 0);
    peer.spilling = true;
    TERN_DEBUG_ASSERT(!peer.queued || !peer.queue.empty());
    peer.open = false;
  }
  TERN_ASSERT(node_->spill_cells() != 0);
  shm::SpillCell& cell = peer.out_spill[peer.next % node_->spill_cells()];
  wire::copy_header(cell.header, header);
  if (bytes != 0) std::memcpy(cell.body, payload, bytes);
  cell.word.store(shm::cell_word(peer.next, shm::CellKind::message, uint32_t(bytes)), std::memory_order_release);
  ++peer.next;
  ++counters().shm_spilled;
  node_->notify(peer.slot);
  return true;
}

/// When half of the ring is free, so that a rank that is behind is not sent back and forth. False: it is not.
bool ShmPath::return_to_ring(Peer& peer) {
  if (peer.lost || free_cells(peer) < shm::kCells / 2) return false;
  TERN_ASSERT(peer.spilling);
  shm::SpillCell& cell = peer.out_spill[peer.next % node_->spill_cells()];
  TERN_DEBUG_ASSERT(free_cells(peer) != 0);
  cell.word.store(shm::cell_word(peer.next, shm::CellKind::moved, 0), std::memory_order_release);
  ++peer.next;
  peer.spilling = false;
  update_open(peer);
  return true;
}

// --- The queue

void ShmPath::enqueue(SendOperation& operation) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  TERN_ASSERT(!operation.linked());
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  if (!peer.activated) activate(peer);
  const bool timed = peer.queue.empty() && is_timed(operation.payload, operation.total_bytes);
  peer.stream_out_ns = timed ? node_->port().now_ns() : 0;
  peer.queue.push_back(&operation);
  peer.open = false;
  if (!peer.queued) {
    peer.queued = true;
    TERN_DEBUG_ASSERT(std::find(busy_.begin(), busy_.end(), &peer) == busy_.end());
    busy_.push_back(&peer);
    // Armed for arrivals only, by a thread that sleeps: from now on it must be woken for room, too.
    if (asleep_) node_->declare_asleep(shm::kAsleep | shm::kWantsSpace);
  }
  advance_queue(peer);
}

bool ShmPath::withdraw(SendOperation& operation) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  if (operation.header_sent || peer.lost || !operation.linked()) return false;
  TERN_DEBUG_ASSERT(peer.queued && !operation.header_sent);
  IntrusiveList<SendOperation>::remove(&operation);
  if (peer.queue.empty()) advance_queue(peer);
  return true;
}

int ShmPath::advance_queue(Peer& peer) {
  int left = 0;
  bool moved = false;
  while (SendOperation* operation = peer.queue.front()) {
    if (!peer.lost) {
      const size_t before = operation->payload.remaining();
      const bool whole = advance_operation(peer, *operation);
      moved |= whole || operation->payload.remaining() != before;
      if (!whole) break;
    }
    peer.stream_out_ns = 0;
    peer.queue.pop_front();
    TERN_DEBUG_ASSERT(peer.lost || operation->payload.remaining() == 0);
    finished_.push_back(operation);
    ++finished_count_;
    ++left;
  }
  if (moved) node_->notify(peer.slot);
  if (peer.queue.empty() && peer.queued) {
    peer.queued = false;
    TERN_DEBUG_ASSERT(std::find(busy_.begin(), busy_.end(), &peer) != busy_.end());
    busy_.erase(std::find(busy_.begin(), busy_.end(), &peer));
    update_open(peer);
  }
  return left == 0 && moved ? 1 : left;
}

/// Whether a first queued message goes to the spill cells now: the ring is full, and no request may be waiting for it,
/// so that the program leaves the library without having polled until it is gone (a fin, say). A small message of the
/// program's own is not such a one: its sender waits for room.
bool ShmPath::spills(Peer& peer, const SendOperation& operation) {
  const wire::Kind kind = operation.header.kind;
  const size_t bytes = operation.total_bytes;
  if (kind == wire::Kind::eager || kind == wire::Kind::eager_sync || bytes > sizeof(shm::SpillCell::body)) return false;
  if (peer.spilling) return !return_to_ring(peer);
  return bytes <= shm::kInlineBytes ? free_cells(peer) == 0 : !fits(peer, bytes, 1);
}

/// True when all of it is in the ring, or beside it.
bool ShmPath::advance_operation(Peer& peer, SendOperation& operation) {
  Cursor& payload = operation.payload;
  TERN_DEBUG_ASSERT(payload.remaining() <= operation.total_bytes && !peer.lost);
  if (spills(peer, operation)) {
    std::byte body[sizeof(shm::SpillCell::body)];
    Cursor(payload).pack(body, operation.total_bytes);
    if (!spill(peer, operation.header, body, operation.total_bytes)) return false;
    payload.skip(operation.total_bytes);
    TERN_DEBUG_ASSERT(payload.remaining() == 0);
    operation.header_sent = true;
    return true;
  }
  if (peer.spilling && !return_to_ring(peer)) return false;
  if (operation.total_bytes <= shm::kInlineBytes) {
    if (free_cells(peer) == 0) return false;
    shm::Cell& cell = peer.out_cells[peer.next % shm::kCells];
    wire::copy_header(cell.header, operation.header);
    payload.pack(cell.body, operation.total_bytes);
    operation.header_sent = true;
    publish(peer, shm::CellKind::message, uint32_t(operation.total_bytes));
    TERN_DEBUG_ASSERT(payload.remaining() == 0);
    return true;
  }
  while (payload.remaining() != 0) {
    if (free_cells(peer) == 0) return false;
    const uint32_t size = chunk_bytes(payload.remaining());
    shm::Chunk chunk;
    std::byte* place = reserve(peer, size, chunk);
    if (!place) return false;
    payload.pack(place, size);
    publish_heartbeat();
    chunk.total_bytes = operation.total_bytes;
    chunk.began_ns = peer.stream_out_ns;
    shm::Cell& cell = peer.out_cells[peer.next % shm::kCells];
    if (!operation.header_sent) wire::copy_header(cell.header, operation.header);
    shm::put_chunk(cell.body, chunk);
    publish(peer, operation.header_sent ? shm::CellKind::continued : shm::CellKind::first, size);
    operation.header_sent = true;
  }
  return true;
}

/// Whether the receiver has consumed anything since this rank last looked (it waits for room).
bool ShmPath::space_came(Peer& peer) {
  const uint32_t limit = peer.out_progress->cells.load(std::memory_order_acquire) + shm::kUsableCells;
  const uint64_t consumed = peer.out_progress->data.load(std::memory_order_acquire);
  const bool came = limit != peer.limit || consumed != peer.consumed_seen;
  TERN_DEBUG_ASSERT(int32_t(limit - peer.limit) >= 0 && consumed >= peer.consumed_seen && consumed <= peer.head);
  peer.limit = limit;
  peer.consumed_seen = consumed;
  return came;
}

}  // namespace tern
