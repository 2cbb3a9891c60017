#include "fabric/shm/shm_memory.h"

#include <algorithm>
#include <atomic>

#include "base/assert.h"
#include "base/hints.h"
#include "base/looks.h"

namespace tern {
namespace {

/// First word of a RemoteKey: the address is in the peer's private memory, or an offset in its lent memory.
constexpr uint64_t kKeyPrivate = 1, kKeyLent = 2;
/// Pieces of a copy by cross-memory attach, between which the peer may take over. A call costs 0.5 to 1 us, a look at
/// the peer 0.5: a small part of what a piece takes (10 to 20 us).
constexpr size_t kPieceBytes = 256 * 1024;
constexpr size_t kFirstPieceBytes = 8 * 1024;  ///< 1.3 us
constexpr uint32_t kIdlePolls = 64;            ///< some 2 us, about two calls of cross-memory attach

}  // namespace

ShmMemory::ShmMemory(ShmNode& node, const CountingPath& path, size_t eager_bytes, const Tunables& tunables)
    : node_(node),
      path_(path),
      allow_attach_(tunables.shm_cma != 0),
      attach_from_bytes_(size_t(tunables.shm_get_bytes)),
      longest_stream_(tunables.oversubscribed == 1 ? node.ring_bytes() / 2 : SIZE_MAX),
      eager_bytes_(eager_bytes) {
  remote_properties_.get = remote_properties_.put = allow_attach_;
  remote_properties_.usual_key = {{kKeyPrivate, 0}};
  arbiter_properties_.copy_locks = allow_attach_;
  arbiter_properties_.piece_bytes = kPieceBytes;
  arbiter_properties_.first_piece_bytes = kFirstPieceBytes;
  arbiter_properties_.idle_polls = kIdlePolls;
}

RemoteKey ShmMemory::expose(const void*, size_t, RemoteAccess) {
  // Memory needs no registration here; the kernel decides who may read it (can_get).
  return allow_attach_ ? remote_properties_.usual_key : RemoteKey{};
}

// A copy lock is a word of this rank's lent memory: twice its generation, plus one when it was taken. Its key names the
// word and the generation (a peer may read about memory long after it was concealed).
bool ShmMemory::add_copy_lock(RemoteKey& key) {
  if (key.words[0] != kKeyPrivate) return false;
  if (free_locks_.empty()) make_copy_locks();
  if (free_locks_.empty()) return false;
  const uint32_t offset = free_locks_.back();
  free_locks_.pop_back();
  TERN_DEBUG_ASSERT(offset % sizeof(uint64_t) == 0 && offset <= shm::kLentBytes - sizeof(uint64_t));
  if (++lock_generation_ == 0) ++lock_generation_;
  auto* word = reinterpret_cast<uint64_t*>(node_.lent(node_.my_slot()) + offset);
  std::atomic_ref(*word).store(uint64_t{lock_generation_} * 2, std::memory_order_relaxed);
  key.words[1] = uint64_t{lock_generation_} << 32 | offset;
  return true;
}

// A page of them.
void ShmMemory::make_copy_locks() {
  RemoteKey where;
  if (!lend(shm::kPage, where)) return;
  for (uint32_t i = shm::kPage / sizeof(uint64_t); i-- > 0;) {
    TERN_DEBUG_ASSERT(where.words[0] == kKeyLent);
    free_locks_.push_back(uint32_t(where.words[1]) + i * uint32_t(sizeof(uint64_t)));
  }
}

bool ShmMemory::try_lock_copy(Lane* owner, const RemoteKey& key) {
  if (key.words[0] != kKeyPrivate || key.words[1] == 0) return true;
  const uint32_t offset = uint32_t(key.words[1]);
  if (offset > shm::kLentBytes - sizeof(uint64_t) || offset % sizeof(uint64_t) != 0) return false;
  const uint32_t slot = owner ? static_cast<ShmLane*>(owner)->slot : node_.my_slot();
  auto* word = reinterpret_cast<uint64_t*>(node_.lent(slot) + offset);
  uint64_t open = (key.words[1] >> 32) * 2;
  return std::atomic_ref(*word).compare_exchange_strong(open, open + 1, std::memory_order_acq_rel);
}

void ShmMemory::conceal(const RemoteKey& key) {
  TERN_DEBUG_ASSERT(key.words[0] != kKeyPrivate || uint32_t(key.words[1]) <= shm::kLentBytes - sizeof(uint64_t));
  if (key.words[0] == kKeyPrivate && key.words[1] != 0) free_locks_.push_back(uint32_t(key.words[1]));
}

bool ShmMemory::can_get(Lane& lane) {
  if (!allow_attach_) return false;
  auto& peer = static_cast<ShmLane&>(lane);
  if (peer.attach < 0) {
    peer.pid = node_.port().probe(peer.slot, node_.block(peer.slot), node_.life_line(peer.slot), peer.attach_writes);
    peer.attach = peer.pid > 0;
  }
  return peer.attach == 1;
}

bool ShmMemory::can_put(Lane& lane) { return can_get(lane) && static_cast<ShmLane&>(lane).attach_writes; }

std::byte* ShmMemory::lend(size_t bytes, RemoteKey& key) {
  bytes = shm::Layout::up(bytes);
  TERN_ASSERT(lent_ <= shm::kLentBytes);
  if (lent_ + bytes > shm::kLentBytes) return nullptr;
  std::byte* memory = node_.lent(node_.my_slot()) + lent_;
  lent_ += bytes;
  TERN_DEBUG_ASSERT(lent_ <= shm::kLentBytes);
  key.words[0] = kKeyLent;
  key.words[1] = uint64_t(memory - node_.lent(node_.my_slot()));
  return memory;
}

bool ShmMemory::peer_is_polling(Lane& lane, bool stays) {
  const auto& peer = static_cast<ShmLane&>(lane);
  const shm::RankBlock& block = node_.block(peer.slot);
  if (block.asleep.load(std::memory_order_relaxed) & shm::kAsleep) return false;
  if (stays || block.copying.load(std::memory_order_relaxed) != 0) return true;
  const uint32_t beat = block.beat.load(std::memory_order_relaxed);
  const uint32_t cells = peer.out_progress.cells.load(std::memory_order_relaxed);
  return look_at<Look::heartbeat>([&] {
    publish_heartbeat();  // the peer may be asking the same of this rank
    cpu_pause();
    if (block.beat.load(std::memory_order_relaxed) != beat) return true;
    if (block.copying.load(std::memory_order_relaxed) != 0) return true;  // it has just begun to copy
    // For example in the middle of this rank's own data.
    return peer.out_progress.cells.load(std::memory_order_relaxed) != cells;
  });
}

// Only copies between memory that lies in one piece: others take longer for reasons that the next message does not
// share.
bool ShmMemory::is_timed(const Cursor& memory, size_t bytes) const {
  return attach_from_bytes_ == 0 && allow_attach_ && bytes > eager_bytes_ && memory.is_contiguous();
}

// A stream is received whole.
void ShmMemory::streamed(ShmLane& lane, size_t bytes, uint64_t began_ns) {
  TERN_DEBUG_ASSERT(began_ns != 0 && bytes != 0);
  lane.rates.took(shm::CopyRates::Kind::stream, bytes, bytes, node_.port().now_ns() - began_ns);
}

bool ShmMemory::stream_is_faster(Lane& lane, size_t bytes, Traffic traffic) {
  if (attach_from_bytes_ != 0) return bytes < attach_from_bytes_;
  return bytes <= longest_stream_ && static_cast<ShmLane&>(lane).rates.prefers_stream(bytes, traffic);
}

bool ShmMemory::peer_has_polled(Lane& lane) {
  const auto& peer = static_cast<ShmLane&>(lane);
  const shm::RankBlock& block = node_.block(peer.slot);
  return block.beat.load(std::memory_order_relaxed) != peer.beat_seen ||
         block.copying.load(std::memory_order_relaxed) != 0;
}

Error ShmMemory::copy_across(TransferOperation& operation, CopyAcross copy) {
  auto& peer = static_cast<ShmLane&>(*operation.lane);
  peer.beat_seen = node_.block(peer.slot).beat.load(std::memory_order_relaxed);
  TERN_DEBUG_ASSERT(peer.attach == 1 && peer.pid > 0);
  std::atomic<uint32_t>& copying = node_.block(node_.my_slot()).copying;
  copying.store(1, std::memory_order_relaxed);
  const bool timed = is_timed(operation.local, operation.bytes);
  const uint64_t began = timed ? node_.port().now_ns() : 0;
  Error error = (node_.port().*copy)(peer.pid, operation.local, operation.remote_address, operation.bytes);
  if (timed && !error) {
    const size_t all = std::max(operation.bytes, operation.of_bytes);
    TERN_DEBUG_ASSERT(operation.bytes != 0);
    peer.rates.took(shm::CopyRates::Kind::attach, all, operation.bytes, node_.port().now_ns() - began);
  }
  copying.store(0, std::memory_order_relaxed);
  return error;
}

void ShmMemory::put(TransferOperation& operation) {
  if (!can_put(*operation.lane) || operation.key.words[0] != kKeyPrivate) {
    operation.done(operation, Error(ErrorClass::unsupported_operation,
                                    "cross-memory attach cannot write to rank " + std::to_string(operation.lane->id)));
    return;
  }
  Error error = copy_across(operation, &shm::NodePort::write);
  operation.done(operation, std::move(error));
}

void ShmMemory::get(TransferOperation& operation) {
  if (operation.key.words[0] == kKeyLent) {
    get_lent(operation);
    return;
  }
  if (!can_get(*operation.lane) || operation.key.words[0] == 0) {
    operation.done(operation, Error(ErrorClass::unsupported_operation, "cross-memory attach does not work with rank " +
                                                                           std::to_string(operation.lane->id)));
    return;
  }
  Error error = copy_across(operation, &shm::NodePort::read);
  if (!error) {
    ++path_.counters().shm_fetches;
    path_.counters().shm_fetched_bytes += operation.bytes;
  }
  operation.done(operation, std::move(error));
}

void ShmMemory::get_lent(TransferOperation& operation) {
  // The peer sent the offset; the bytes are in the segment that both have mapped.
  const uint64_t offset = operation.key.words[1];
  if (offset > shm::kLentBytes || operation.bytes > shm::kLentBytes - offset) {
    operation.done(operation, Error(ErrorClass::intern, "lent memory: outside of it"));
    return;
  }
  operation.local.unpack(node_.lent(static_cast<ShmLane&>(*operation.lane).slot) + offset, operation.bytes);
  operation.done(operation, Error());
}

}  // namespace tern
