// The receiving half of ShmPath.
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/recorder.h"
#include "fabric/shm/shm_path.h"

namespace tern {
namespace {

constexpr size_t kHot = 8;        ///< rings looked at in every poll, some 5 ns each
constexpr size_t kColdLooks = 8;  ///< and of the others, in turn, this many: a poll stays below 0.1 us with 128 peers
/// Cells of a burst that are on their way to this core's cache while one is handled. A line from another core takes
/// some 100 ns, a small message 25. Tried: 1 to 12 (20 M messages a second without, 21.5, 22, 23.5, 24 at 4, 24.3 at 6
/// and 8).
constexpr uint32_t kCellsAhead = 6;
/// A message in the data ring: the data of the message this many cells ahead is fetched, too; of a long one its first
/// bytes. (Rate of 64 to 256 B: 1.03 without, 1.16 with it, of the build before.)
constexpr uint32_t kChunksAhead = 3, kMaxChunkAhead = 1024;
constexpr int kBudget = 32;        ///< cells taken from one ring before the next one, some 2 us of small messages
constexpr int kSpillBudget = 128;  ///< the same of spill cells, whose messages carry no data of users

}  // namespace

int ShmPath::poll_rings() {
  find_senders();
  int done = 0;
  const size_t count = active_.size();
  const size_t hot = count < kHot ? count : kHot;
  for (size_t i = 0; i < hot; ++i) done += drain(*active_[i]);
  if (count <= kHot) [[likely]]
    return done;
  for (size_t looks = 0; looks < kColdLooks && looks < count - kHot; ++looks) {
    if (++cold_ >= count) cold_ = kHot;
    if (cold_ < kHot) cold_ = kHot;
    const int got = drain(*active_[cold_]);
    if (got == 0) continue;
    done += got;
    std::swap(active_[cold_], active_[replace_]);
    replace_ = (replace_ + 1) % kHot;
  }
  return done;
}

/// Adds rings that were used for the first time to those polled; true: there were some.
bool ShmPath::find_senders() {
  bool found = false;
  shm::RankBlock& mine = node_->block(node_->my_slot());
  for (size_t word = 0; word < senders_known_.size(); ++word) {
    const uint64_t senders = mine.senders[word].load(std::memory_order_acquire);
    if (senders == senders_known_[word]) [[likely]]
      continue;
    for (uint64_t fresh = senders & ~senders_known_[word]; fresh != 0; fresh &= fresh - 1) {
      const size_t slot = word * 64 + size_t(std::countr_zero(fresh));
      if (slot >= peers_.size() || !peers_[slot] || peers_[slot]->polled) continue;
      peers_[slot]->polled = true;
      TERN_DEBUG_ASSERT(!peers_[slot]->lost);
      active_.push_back(peers_[slot].get());
      found = true;
    }
    senders_known_[word] = senders;
  }
  return found;
}

bool ShmPath::peek(Lane& lane, PeekedMessage& arrival) {
  auto& peer = static_cast<Peer&>(lane);
  if (peer.diverted) [[unlikely]]
    return false;
  shm::Cell& cell = peer.in_cells[peer.expected % shm::kCells];
  const uint64_t word = cell.word.load(std::memory_order_acquire);
  if (uint32_t(word >> 32) != peer.expected) return false;
  const auto info = uint32_t(word);
  arrival.header = &cell.header;
  arrival.bytes = info & ((uint32_t{1} << shm::kKindShift) - 1);
  const auto kind = shm::CellKind(info >> shm::kKindShift);
  arrival.payload = cell.body;
  if (kind == shm::CellKind::message) [[likely]]
    return true;
  if (kind == shm::CellKind::moved) return false;
  shm::Chunk chunk;
  std::memcpy(&chunk, cell.body, sizeof chunk);
  arrival.payload = peer.in_ring + chunk.offset;
  return kind == shm::CellKind::first && arrival.bytes == chunk.total_bytes;
}

void ShmPath::take(Lane& lane) {
  auto& peer = static_cast<Peer&>(lane);
  const shm::Cell& cell = peer.in_cells[peer.expected % shm::kCells];
  const auto kind = shm::CellKind(uint32_t(cell.word.load(std::memory_order_relaxed)) >> shm::kKindShift);
  if (kind != shm::CellKind::message) {
    shm::Chunk chunk;
    std::memcpy(&chunk, cell.body, sizeof chunk);
    TERN_DEBUG_ASSERT(chunk.end >= peer.in_consumed);
    peer.in_consumed = chunk.end;
  }
  peer.streak = 0;
  ++peer.expected;
  give_back(peer);
}

int ShmPath::poll_lane(Lane& lane) {
  if (polling_) return 0;
  polling_ = true;
  const int done = drain(static_cast<Peer&>(lane));
  polling_ = false;
  return done;
}

bool ShmPath::next_is_here(const Peer& peer) const {
  const std::atomic<uint64_t>& word = peer.diverted ? peer.in_spill[peer.expected % node_->spill_cells()].word
                                                    : peer.in_cells[peer.expected % shm::kCells].word;
  return uint32_t(word.load(std::memory_order_acquire) >> 32) == peer.expected;
}

int ShmPath::drain(Peer& peer) {
  if (peer.diverted) [[unlikely]]
    return drain_spill(peer);
  int taken = 0;
  while (taken < kBudget && !peer.diverted) {
    shm::Cell& cell = peer.in_cells[peer.expected % shm::kCells];
    const uint64_t word = cell.word.load(std::memory_order_acquire);
    if (uint32_t(word >> 32) != peer.expected) break;
    // Not for the first: its successor may not be written yet, and its sender would have to get the line back.
    if (taken != 0) __builtin_prefetch(&peer.in_cells[(peer.expected + kCellsAhead) % shm::kCells]);
    peer.streak = 0;
    const auto info = uint32_t(word);
    if (shm::CellKind(info >> shm::kKindShift) == shm::CellKind::message) [[likely]] {
      TERN_DEBUG_ASSERT(info <= shm::kInlineBytes && !peer.landing_open);
      sink_.on_message(peer, cell.header, cell.body, info);  // kind message is 0: the rest is the length
    } else if (shm::CellKind(info >> shm::kKindShift) == shm::CellKind::moved) [[unlikely]] {
      peer.diverted = true;
      TERN_DEBUG_ASSERT(!peer.landing_open && node_->spill_cells() != 0);
    } else {
      if (taken != 0) prefetch_chunk(peer, peer.expected + kChunksAhead);
      receive_chunk(peer, cell, info);
    }
    ++peer.expected;
    ++taken;
    give_back(peer);
  }
  return taken;
}

int ShmPath::drain_spill(Peer& peer) {
  int taken = 0;
  while (taken < kSpillBudget && peer.diverted && next_is_here(peer)) {
    const shm::SpillCell& cell = peer.in_spill[peer.expected % node_->spill_cells()];
    const auto info = uint32_t(cell.word.load(std::memory_order_relaxed));
    peer.streak = 0;
    if (shm::CellKind(info >> shm::kKindShift) == shm::CellKind::moved) {
      peer.diverted = false;
    } else {
      TERN_ASSERT(info <= sizeof cell.body);
      sink_.on_message(peer, cell.header, cell.body, info);
    }
    ++peer.expected;
    ++taken;
    give_back(peer);
  }
  return taken;
}

/// Asks for the data of the message in the cell with this sequence number, if it was written already.
void ShmPath::prefetch_chunk(Peer& peer, uint32_t sequence) {
  const shm::Cell& cell = peer.in_cells[sequence % shm::kCells];
  const uint64_t word = cell.word.load(std::memory_order_acquire);
  if (uint32_t(word >> 32) != sequence || shm::CellKind(uint32_t(word) >> shm::kKindShift) == shm::CellKind::message)
    return;
  shm::Chunk chunk;
  std::memcpy(&chunk, cell.body, sizeof chunk);
  const uint32_t bytes = std::min<uint32_t>(uint32_t(word) & ((uint32_t{1} << shm::kKindShift) - 1), kMaxChunkAhead);
  for (uint32_t line = 0; line < bytes; line += shm::kLine) __builtin_prefetch(peer.in_ring + chunk.offset + line);
}

void ShmPath::receive_chunk(Peer& peer, shm::Cell& cell, uint32_t info) {
  const uint32_t bytes = info & ((uint32_t{1} << shm::kKindShift) - 1);
  shm::Chunk chunk;
  std::memcpy(&chunk, cell.body, sizeof chunk);
  TERN_ASSERT(size_t{chunk.offset} + bytes <= node_->ring_bytes());
  const std::byte* data = peer.in_ring + chunk.offset;
  if (shm::CellKind(info >> shm::kKindShift) == shm::CellKind::first) {
    if (bytes == chunk.total_bytes) {
      sink_.on_message(peer, cell.header, data, bytes);
    } else {
      TERN_DEBUG_ASSERT(!peer.landing_open && bytes < chunk.total_bytes);
      peer.landing_header = cell.header;
      peer.landing_total = peer.landing_left = chunk.total_bytes;
      peer.landing = sink_.on_header(peer, cell.header, chunk.total_bytes);
      peer.landing_open = true;
      peer.stream_in_ns = is_timed(peer.landing.target, chunk.total_bytes) ? chunk.began_ns : 0;
      land(peer, data, bytes);
    }
  } else {
    land(peer, data, bytes);
  }
  TERN_DEBUG_ASSERT(chunk.end >= peer.in_consumed);
  peer.in_consumed = chunk.end;
}

void ShmPath::land(Peer& peer, const std::byte* data, size_t bytes) {
  TERN_ASSERT(peer.landing_open && bytes <= peer.landing_left);
  peer.landing.target.unpack(data, bytes);
  publish_heartbeat();
  peer.landing_left -= bytes;
  if (peer.landing_left != 0) return;
  peer.landing_open = false;
  if (peer.stream_in_ns != 0) streamed(peer);
  sink_.on_landed(peer, peer.landing_header, peer.landing, peer.landing_total, Error());
}

/// Tells the sender now and then how much was consumed: each time costs it a cache miss when it looks.
inline void ShmPath::give_back(Peer& peer) {
  if (peer.expected - 1 - peer.published < cell_quantum_ && peer.in_consumed - peer.in_published < quantum_) [[likely]]
    return;
  give_back_now(peer);
}

void ShmPath::give_back_now(Peer& peer) {
  if (peer.published == peer.expected - 1 && peer.in_published == peer.in_consumed) return;
  peer.published = peer.expected - 1;
  TERN_DEBUG_ASSERT(int32_t(peer.published - peer.in_progress->cells.load(std::memory_order_relaxed)) >= 0);
  TERN_DEBUG_ASSERT(peer.in_consumed >= peer.in_published);
  peer.in_published = peer.in_consumed;
  peer.in_progress->cells.store(peer.published, std::memory_order_release);
  peer.in_progress->data.store(peer.in_published, std::memory_order_release);
  node_->notify(peer.slot, shm::kWantsSpace);
}

}  // namespace tern
