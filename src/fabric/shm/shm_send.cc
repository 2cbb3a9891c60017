// The sending half of ShmPath.
#include <algorithm>

#include "base/assert.h"
#include "fabric/shm/shm_path.h"

namespace tern {

bool ShmPath::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  auto& peer = static_cast<Peer&>(lane);
  if (bytes > shm::kInlineBytes || !peer.open || !peer.out.has_cell()) [[unlikely]] {
    return try_send_slow(peer, header, payload, bytes);
  }
  TERN_DEBUG_ASSERT(peer.activated && peer.queue.empty());
  peer.out.send_inline(header, payload, bytes);
  node_->notify(peer.slot);
  return true;
}

/// The first message to that rank: it must know that it has a ring to poll.
void ShmPath::activate(Peer& peer) {
  const uint32_t me = node_->my_slot();
  node_->block(peer.slot).senders[me / 64].fetch_or(uint64_t{1} << (me % 64), std::memory_order_seq_cst);
  TERN_DEBUG_ASSERT(!peer.activated);
  peer.activated = true;
  peer.update_open();
}

bool ShmPath::try_send_slow(Peer& peer, const wire::Header& header, const void* payload, size_t bytes) {
  TERN_DEBUG_ASSERT(bytes <= properties_.eager_bytes || bytes <= kAlwaysWholeBytes);
  if (!peer.activated) activate(peer);
  if (peer.out.spilling() && !peer.return_to_ring()) return false;
  if (!peer.open) return false;
  if (bytes <= shm::kInlineBytes) {
    if (peer.out.free_cells() == 0) return false;
    return try_send(peer, header, payload, bytes);
  }
  if (!peer.out.fits(bytes)) return false;
  peer.out.send_chunks(header, static_cast<const std::byte*>(payload), bytes);
  node_->notify(peer.slot);
  return true;
}

// --- Spill cells

bool ShmPath::try_post(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  auto& peer = static_cast<Peer&>(lane);
  return try_send(lane, header, payload, bytes) || (peer.queue.empty() && spill(peer, header, payload, bytes));
}

/// Behind everything sent before: of that nothing is queued in this rank's memory any more.
bool ShmPath::spill(Peer& peer, const wire::Header& header, const void* payload, size_t bytes) {
  if (peer.lost) return false;
  const bool spilled = peer.out.spill(header, payload, bytes);
  if (peer.out.spilling()) peer.open = false;
  if (!spilled) return false;
  ++counters().shm_spilled;
  node_->notify(peer.slot);
  return true;
}

// --- The queue

void ShmPath::enqueue(SendOperation& operation) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  TERN_ASSERT(!operation.linked());
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  if (!peer.activated) activate(peer);
  peer.stream_out_ns = peer.queue.empty() ? memory_.time_of(operation.payload, operation.total_bytes) : 0;
  peer.queue.push_back(&operation);
  peer.open = false;
  if (!peer.queued) {
    peer.queued = true;
    TERN_DEBUG_ASSERT(std::find(busy_.begin(), busy_.end(), &peer) == busy_.end());
    busy_.push_back(&peer);
    // Armed for arrivals only, by a thread that sleeps: from now on it must be woken for room, too.
    if (asleep_) declare_asleep();
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
    peer.update_open();
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
  if (peer.out.spilling()) return !peer.return_to_ring();
  return bytes <= shm::kInlineBytes ? peer.out.free_cells() == 0 : !peer.out.fits(bytes);
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
  if (peer.out.spilling() && !peer.return_to_ring()) return false;
  do {
    if (!peer.out.send_part(operation, peer.stream_out_ns)) return false;
    memory_.publish_heartbeat();
  } while (payload.remaining() != 0);
  return true;
}

}  // namespace tern
