// The receiving half of ShmPath.
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/recorder.h"
#include "fabric/shm/shm_path.h"

namespace tern {
namespace {

constexpr size_t kHot = 8;         ///< rings looked at in every poll, some 5 ns each
constexpr size_t kColdLooks = 8;   ///< and of the others, in turn, this many: a poll stays below 0.1 us with 128 peers
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

bool ShmPath::peek(Lane& lane, PeekedMessage& arrival) { return static_cast<Peer&>(lane).in.peek(arrival); }

void ShmPath::take(Lane& lane) {
  auto& peer = static_cast<Peer&>(lane);
  peer.in.take();
  peer.out.note_arrival();
  give_back(peer);
}

int ShmPath::poll_lane(Lane& lane) {
  if (polling_) return 0;
  polling_ = true;
  const int done = drain(static_cast<Peer&>(lane));
  polling_ = false;
  return done;
}

int ShmPath::drain(Peer& peer) {
  if (peer.in.diverted()) [[unlikely]]
    return drain_spill(peer);
  int taken = 0;
  while (taken < kBudget && !peer.in.diverted()) {
    uint32_t info;
    const shm::Cell* cell = peer.in.next(info);
    if (!cell) break;
    // Not for the first: its successor may not be written yet, and its sender would have to get the line back.
    if (taken != 0) peer.in.prefetch_cell();
    peer.out.note_arrival();
    if (shm::kind_of(info) == shm::CellKind::message) [[likely]] {
      TERN_DEBUG_ASSERT(info <= shm::kInlineBytes && !peer.landing_open);
      sink_.on_message(peer, cell->header, cell->body, info);  // kind message is 0: the rest is the length
    } else if (shm::kind_of(info) == shm::CellKind::moved) [[unlikely]] {
      TERN_DEBUG_ASSERT(!peer.landing_open);
      peer.in.divert();
    } else {
      if (taken != 0) peer.in.prefetch_chunk();
      receive_chunk(peer, *cell, info);
    }
    peer.in.step();
    ++taken;
    give_back(peer);
  }
  return taken;
}

int ShmPath::drain_spill(Peer& peer) {
  int taken = 0;
  while (taken < kSpillBudget && peer.in.diverted()) {
    uint32_t info;
    const shm::SpillCell* cell = peer.in.next_spilled(info);
    if (!cell) break;
    peer.out.note_arrival();
    if (shm::kind_of(info) == shm::CellKind::moved) {
      peer.in.return_to_ring();
    } else {
      TERN_ASSERT(info <= sizeof cell->body);
      sink_.on_message(peer, cell->header, cell->body, info);
    }
    peer.in.step();
    ++taken;
    give_back(peer);
  }
  return taken;
}

void ShmPath::receive_chunk(Peer& peer, const shm::Cell& cell, uint32_t info) {
  const uint32_t bytes = shm::bytes_of(info);
  const shm::Chunk chunk = shm::RingReader::chunk_in(cell);
  TERN_ASSERT(size_t{chunk.offset} + bytes <= node_->ring_bytes());
  const std::byte* data = peer.in.data(chunk);
  if (shm::kind_of(info) == shm::CellKind::first) {
    if (bytes == chunk.total_bytes) {
      sink_.on_message(peer, cell.header, data, bytes);
    } else {
      TERN_DEBUG_ASSERT(!peer.landing_open && bytes < chunk.total_bytes);
      peer.landing_header = cell.header;
      peer.landing_total = peer.landing_left = chunk.total_bytes;
      peer.landing = sink_.on_header(peer, cell.header, chunk.total_bytes);
      peer.landing_open = true;
      peer.stream_in_ns = memory_.is_timed(peer.landing.target, chunk.total_bytes) ? chunk.began_ns : 0;
      land(peer, data, bytes);
    }
  } else {
    land(peer, data, bytes);
  }
  peer.in.consume(chunk);
}

void ShmPath::land(Peer& peer, const std::byte* data, size_t bytes) {
  TERN_ASSERT(peer.landing_open && bytes <= peer.landing_left);
  peer.landing.target.unpack(data, bytes);
  memory_.publish_heartbeat();
  peer.landing_left -= bytes;
  if (peer.landing_left != 0) return;
  peer.landing_open = false;
  if (peer.stream_in_ns != 0) memory_.streamed(peer, peer.landing_total, peer.stream_in_ns);
  sink_.on_landed(peer, peer.landing_header, peer.landing, peer.landing_total, Error());
}

/// Tells the sender now and then how much was consumed: each time costs it a cache miss when it looks.
inline void ShmPath::give_back(Peer& peer) {
  if (peer.in.owes(cell_quantum_, quantum_)) [[unlikely]]
    give_back_now(peer);
}

void ShmPath::give_back_now(Peer& peer) {
  if (peer.in.give_back()) node_->notify(peer.slot, shm::kWantsSpace);
}

}  // namespace tern
