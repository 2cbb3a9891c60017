// Set-up, waiting, loss of peers, get.
#include "fabric/shm/shm_path.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/assert.h"
#include "base/hints.h"
#include "base/looks.h"

namespace tern {
namespace {

constexpr uint32_t kDoorbellTag = ~uint32_t{0};  // of the doorbell in epoll; others are slots
/// Part of a data ring that is used at first, so that small messages stay in the second-level cache. It grows to the
/// whole ring when it was full.
constexpr uint32_t kFirstCapacity = 32768;
/// Longest chunk of a message in the data ring; measured (shm_path.h).
constexpr size_t kMaxChunkBytes = 8192;
/// First word of a RemoteKey: the address is in the peer's private memory, or an offset in its lent memory.
constexpr uint64_t kKeyPrivate = 1, kKeyLent = 2;
/// Pieces of a copy by cross-memory attach, between which the peer may take over. A call costs 0.5 to 1 us, a look at
/// the peer 0.5: a small part of what a piece takes (10 to 20 us).
constexpr size_t kPieceBytes = 256 * 1024;
constexpr size_t kFirstPieceBytes = 8 * 1024;  ///< 1.3 us
constexpr uint32_t kIdlePolls = 64;            ///< some 2 us, about two calls of cross-memory attach

Error lost_error(PeerId peer) {
  return Error(ErrorClass::proc_aborted, "rank " + std::to_string(peer) + " on this node has ended");
}

}  // namespace

ShmPath::ShmPath(std::unique_ptr<ShmNode> node, Sink& sink, const Tunables& tunables)
    : node_(std::move(node)),
      sink_(sink),
      allow_attach_(tunables.shm_cma != 0),
      attach_from_bytes_(size_t(tunables.shm_get_bytes)) {
  const size_t ring = node_->ring_bytes();
  // A quarter of the ring: an eager message and the gap before the ring's end always fit once the ring is
  // empty.
  properties_.name = "shm";
  properties_.eager_bytes = std::min<size_t>(size_t(tunables.shm_eager_bytes), ring / 4);
  properties_.peek = true;
  remote_properties_.get = remote_properties_.put = allow_attach_;
  remote_properties_.usual_key = {{kKeyPrivate, 0}};
  arbiter_properties_.copy_locks = allow_attach_;
  arbiter_properties_.piece_bytes = kPieceBytes;
  arbiter_properties_.first_piece_bytes = kFirstPieceBytes;
  arbiter_properties_.idle_polls = kIdlePolls;
  properties_.announce_from_bytes = properties_.eager_bytes + 1;
  properties_.hybrid_bytes = size_t(tunables.shm_hybrid_bytes);
  quantum_ = quantum_awake();
  largest_chunk_ = uint32_t(std::min<size_t>(ring / 8, kMaxChunkBytes));

  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  TERN_ASSERT(epoll_ >= 0);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = kDoorbellTag;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, node_->doorbell(), &event);

  const uint32_t me = node_->my_slot();
  by_rank_.assign(node_->members().back() + 1, nullptr);
  peers_.resize(node_->slots());
  senders_known_.assign((node_->slots() + 63) / 64, 0);
  for (uint32_t slot = 0; slot < node_->slots(); ++slot) {
    if (slot == me || !node_->present(slot)) continue;
    peers_[slot] = std::make_unique<Peer>(node_->rank_of(slot));
    Peer& peer = *peers_[slot];
    peer.slot = slot;
    peer.out_cells = node_->cells(slot, me);
    peer.out_ring = node_->ring(slot, me);
    peer.out_spill = node_->spill(slot, me);
    peer.out_progress = &node_->progress(slot, me);
    peer.capacity = uint32_t(std::min<size_t>(ring, kFirstCapacity));
    peer.in_cells = node_->cells(me, slot);
    peer.in_ring = node_->ring(me, slot);
    peer.in_spill = node_->spill(me, slot);
    peer.in_progress = &node_->progress(me, slot);
    peer.rates = &node_->rates(me, slot);
    TERN_DEBUG_ASSERT(!by_rank_[peer.id] && peer.capacity <= ring);
    by_rank_[peer.id] = &peer;
    TERN_DEBUG_ASSERT(peer.slot != me);
    if (node_->life_line(slot) < 0) continue;
    event.data.u32 = slot;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, node_->life_line(slot), &event);
  }
}

ShmPath::~ShmPath() {
  if (epoll_ >= 0) close(epoll_);
}

int ShmPath::poll() {
  if (polling_) return 0;
  polling_ = true;
  int done = poll_rings();
  for (size_t i = 0; i < busy_.size();) {
    Peer& peer = *busy_[i];
    TERN_DEBUG_ASSERT(peer.queued);
    done += advance_queue(peer);
    if (peer.queued) ++i;  // otherwise it has left busy_, and another one is in its place
  }
  if (finished_count_ != 0) done += complete_finished();
  if (done == 0 && (++empty_polls_ % limits_of(Look::life_line).looks == 0 || check_lives_)) done = check_lives();
  polling_ = false;
  return done;
}

int ShmPath::complete_finished() {
  // Only those that are here now: a done-function may enqueue the next one.
  const size_t count = finished_count_;
  for (size_t i = 0; i < count; ++i) {
    SendOperation* operation = finished_.pop_front();
    TERN_ASSERT(operation);
    TERN_DEBUG_ASSERT(finished_count_ != 0);
    --finished_count_;
    Error error;
    if (!operation->header_sent || operation->payload.remaining() != 0) error = lost_error(operation->lane->id);
    operation->done(*operation, std::move(error));
  }
  return int(count);
}

// --- Sleeping

bool ShmPath::anything_here() {
  if (finished_count_ != 0 || find_senders()) return true;
  for (Peer* peer : active_) {
    if (next_is_here(*peer)) return true;
  }
  for (Peer* peer : busy_) {
    if (space_came(*peer)) return true;
  }
  IntrusiveList<ShmCondition>& conditions = node_->conditions();
  for (ShmCondition* one = conditions.front(); one; one = conditions.next(one)) {
    if (one->ready()) return true;
  }
  return false;
}

bool ShmPath::arm() {
  for (Peer* peer : active_) give_back_now(*peer);
  node_->declare_asleep(shm::kAsleep | (busy_.empty() ? 0 : shm::kWantsSpace));
  asleep_ = true;
  cell_quantum_ = quantum_ = 1;
  if (!anything_here()) return true;
  disarm();
  return false;
}

void ShmPath::disarm() {
  if (!asleep_) return;
  asleep_ = false;
  TERN_DEBUG_ASSERT(cell_quantum_ == 1 && quantum_ == 1);
  cell_quantum_ = kCellQuantum;
  quantum_ = quantum_awake();
  // Not woken by the doorbell: perhaps by a life line.
  if (!node_->declare_awake()) check_lives_ = true;
  hints_.rung = node_->ring_owed();
}

// --- Loss of a peer

int ShmPath::check_lives() {
  check_lives_ = false;
  int done = 0;
  epoll_event events[16];
  const int count = epoll_wait(epoll_, events, 16, 0);
  for (int i = 0; i < count; ++i) {
    const uint32_t slot = events[i].data.u32;
    TERN_DEBUG_ASSERT(slot == kDoorbellTag || (slot < peers_.size() && peers_[slot]));
    if (slot == kDoorbellTag) continue;
    epoll_ctl(epoll_, EPOLL_CTL_DEL, node_->life_line(slot), nullptr);
    if (node_->block(slot).left.load(std::memory_order_acquire) == 0) done += lose(*peers_[slot]);
  }
  return done;
}

int ShmPath::lose(Peer& peer) {
  if (peer.lost) return 0;
  find_senders();
  // What it had published before it ended is still valid.
  int done = 0;
  while (int n = drain(peer)) done += n;
  TERN_DEBUG_ASSERT(!peer.lost);
  peer.lost = true;
  peer.open = false;
  if (peer.landing_open) {
    peer.landing_open = false;
    sink_.on_landed(peer, peer.landing_header, peer.landing, peer.landing_total, lost_error(peer.id));
  }
  while (SendOperation* operation = peer.queue.pop_front()) operation->done(*operation, lost_error(peer.id));
  TERN_DEBUG_ASSERT(peer.queue.empty() && !peer.open && !peer.landing_open);
  sink_.on_peer_lost(peer, lost_error(peer.id));
  return done + 1;
}

// --- Cross-memory attach

RemoteKey ShmPath::expose(const void*, size_t, RemoteAccess) {
  // Memory needs no registration here; the kernel decides who may read it (can_get).
  return allow_attach_ ? remote_properties_.usual_key : RemoteKey{};
}

// A copy lock is a word of this rank's lent memory: twice its generation, plus one when it was taken. Its key names the
// word and the generation (a peer may read about memory long after it was concealed).
bool ShmPath::add_copy_lock(RemoteKey& key) {
  if (key.words[0] != kKeyPrivate) return false;
  if (free_locks_.empty()) make_copy_locks();
  if (free_locks_.empty()) return false;
  const uint32_t offset = free_locks_.back();
  free_locks_.pop_back();
  TERN_DEBUG_ASSERT(offset % sizeof(uint64_t) == 0 && offset <= shm::kLentBytes - sizeof(uint64_t));
  if (++lock_generation_ == 0) ++lock_generation_;
  auto* word = reinterpret_cast<uint64_t*>(node_->lent(node_->my_slot()) + offset);
  std::atomic_ref(*word).store(uint64_t{lock_generation_} * 2, std::memory_order_relaxed);
  key.words[1] = uint64_t{lock_generation_} << 32 | offset;
  return true;
}

// A page of them.
void ShmPath::make_copy_locks() {
  RemoteKey where;
  if (!lend(shm::kPage, where)) return;
  for (uint32_t i = shm::kPage / sizeof(uint64_t); i-- > 0;) {
    TERN_DEBUG_ASSERT(where.words[0] == kKeyLent);
    free_locks_.push_back(uint32_t(where.words[1]) + i * uint32_t(sizeof(uint64_t)));
  }
}

bool ShmPath::try_lock_copy(Lane* owner, const RemoteKey& key) {
  if (key.words[0] != kKeyPrivate || key.words[1] == 0) return true;
  const uint32_t offset = uint32_t(key.words[1]);
  if (offset > shm::kLentBytes - sizeof(uint64_t) || offset % sizeof(uint64_t) != 0) return false;
  const uint32_t slot = owner ? static_cast<Peer*>(owner)->slot : node_->my_slot();
  auto* word = reinterpret_cast<uint64_t*>(node_->lent(slot) + offset);
  uint64_t open = (key.words[1] >> 32) * 2;
  return std::atomic_ref(*word).compare_exchange_strong(open, open + 1, std::memory_order_acq_rel);
}

void ShmPath::conceal(const RemoteKey& key) {
  TERN_DEBUG_ASSERT(key.words[0] != kKeyPrivate || uint32_t(key.words[1]) <= shm::kLentBytes - sizeof(uint64_t));
  if (key.words[0] == kKeyPrivate && key.words[1] != 0) free_locks_.push_back(uint32_t(key.words[1]));
}

bool ShmPath::can_get(Lane& lane) {
  if (!allow_attach_) return false;
  auto& peer = static_cast<Peer&>(lane);
  if (peer.attach < 0) {
    peer.pid = node_->port().probe(peer.slot, node_->block(peer.slot), node_->life_line(peer.slot), peer.attach_writes);
    peer.attach = peer.pid > 0;
  }
  return peer.attach == 1;
}

bool ShmPath::can_put(Lane& lane) { return can_get(lane) && static_cast<Peer&>(lane).attach_writes; }

std::byte* ShmPath::lend(size_t bytes, RemoteKey& key) {
  bytes = shm::Layout::up(bytes);
  TERN_ASSERT(lent_ <= shm::kLentBytes);
  if (lent_ + bytes > shm::kLentBytes) return nullptr;
  std::byte* memory = node_->lent(node_->my_slot()) + lent_;
  lent_ += bytes;
  TERN_DEBUG_ASSERT(lent_ <= shm::kLentBytes);
  key.words[0] = kKeyLent;
  key.words[1] = uint64_t(memory - node_->lent(node_->my_slot()));
  return memory;
}

void ShmPath::publish_heartbeat() { node_->block(node_->my_slot()).beat.store(++beat_, std::memory_order_relaxed); }

bool ShmPath::peer_is_polling(Lane& lane, bool stays) {
  const auto& peer = static_cast<Peer&>(lane);
  const shm::RankBlock& block = node_->block(peer.slot);
  if (block.asleep.load(std::memory_order_relaxed) & shm::kAsleep) return false;
  if (stays || block.copying.load(std::memory_order_relaxed) != 0) return true;
  const uint32_t beat = block.beat.load(std::memory_order_relaxed);
  const uint32_t cells = peer.out_progress->cells.load(std::memory_order_relaxed);
  return look_at<Look::heartbeat>([&] {
    publish_heartbeat();  // the peer may be asking the same of this rank
    cpu_pause();
    if (block.beat.load(std::memory_order_relaxed) != beat) return true;
    if (block.copying.load(std::memory_order_relaxed) != 0) return true;  // it has just begun to copy
    // For example in the middle of this rank's own data.
    return peer.out_progress->cells.load(std::memory_order_relaxed) != cells;
  });
}

// Only copies between memory that lies in one piece: others take longer for reasons that the next message does not
// share.
bool ShmPath::is_timed(const Cursor& memory, size_t bytes) const {
  return attach_from_bytes_ == 0 && allow_attach_ && bytes > properties_.eager_bytes && memory.is_contiguous();
}

// A stream is received whole.
void ShmPath::streamed(Peer& peer) {
  const uint64_t ns = node_->port().now_ns() - peer.stream_in_ns;
  TERN_DEBUG_ASSERT(peer.stream_in_ns != 0 && peer.landing_total != 0 && peer.landing_left == 0);
  peer.rates->took(shm::CopyRates::Kind::stream, peer.landing_total, peer.landing_total, ns);
}

bool ShmPath::stream_is_faster(Lane& lane, size_t bytes) {
  if (attach_from_bytes_ != 0) return bytes < attach_from_bytes_;
  return static_cast<Peer&>(lane).rates->prefers_stream(bytes);
}

bool ShmPath::peer_has_polled(Lane& lane) {
  const auto& peer = static_cast<Peer&>(lane);
  const shm::RankBlock& block = node_->block(peer.slot);
  return block.beat.load(std::memory_order_relaxed) != peer.beat_seen ||
         block.copying.load(std::memory_order_relaxed) != 0;
}

Error ShmPath::copy_across(TransferOperation& operation, CopyAcross copy) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  peer.beat_seen = node_->block(peer.slot).beat.load(std::memory_order_relaxed);
  TERN_DEBUG_ASSERT(peer.attach == 1 && peer.pid > 0);
  std::atomic<uint32_t>& copying = node_->block(node_->my_slot()).copying;
  copying.store(1, std::memory_order_relaxed);
  const bool timed = is_timed(operation.local, operation.bytes);
  const uint64_t began = timed ? node_->port().now_ns() : 0;
  Error error = (node_->port().*copy)(peer.pid, operation.local, operation.remote_address, operation.bytes);
  if (timed && !error) {
    const size_t all = std::max(operation.bytes, operation.of_bytes);
    TERN_DEBUG_ASSERT(operation.bytes != 0);
    peer.rates->took(shm::CopyRates::Kind::attach, all, operation.bytes, node_->port().now_ns() - began);
  }
  copying.store(0, std::memory_order_relaxed);
  return error;
}

void ShmPath::put(TransferOperation& operation) {
  if (!can_put(*operation.lane) || operation.key.words[0] != kKeyPrivate) {
    operation.done(operation, Error(ErrorClass::unsupported_operation,
                                    "cross-memory attach cannot write to rank " + std::to_string(operation.lane->id)));
    return;
  }
  Error error = copy_across(operation, &shm::NodePort::write);
  operation.done(operation, std::move(error));
}

void ShmPath::get(TransferOperation& operation) {
  if (operation.key.words[0] == kKeyLent) {
    // The peer sent the offset; the bytes are in the segment that both have mapped.
    const uint64_t offset = operation.key.words[1];
    if (offset > shm::kLentBytes || operation.bytes > shm::kLentBytes - offset) {
      operation.done(operation, Error(ErrorClass::intern, "lent memory: outside of it"));
      return;
    }
    operation.local.unpack(node_->lent(static_cast<Peer&>(*operation.lane).slot) + offset, operation.bytes);
    operation.done(operation, Error());
    return;
  }
  if (!can_get(*operation.lane) || operation.key.words[0] == 0) {
    operation.done(operation, Error(ErrorClass::unsupported_operation, "cross-memory attach does not work with rank " +
                                                                           std::to_string(operation.lane->id)));
    return;
  }
  Error error = copy_across(operation, &shm::NodePort::read);
  if (!error) {
    ++counters().shm_fetches;
    counters().shm_fetched_bytes += operation.bytes;
  }
  operation.done(operation, std::move(error));
}

}  // namespace tern
