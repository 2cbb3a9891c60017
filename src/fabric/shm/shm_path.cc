// Set-up, waiting, loss of peers.
#include "fabric/shm/shm_path.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/assert.h"
#include "base/looks.h"

namespace tern {
namespace {

constexpr uint32_t kDoorbellTag = ~uint32_t{0};  // of the doorbell in epoll; others are slots

Error lost_error(PeerId peer) {
  return Error(ErrorClass::proc_aborted, "rank " + std::to_string(peer) + " on this node has ended");
}

}  // namespace

ShmPath::ShmPath(std::unique_ptr<ShmNode> node, Sink& sink, const Tunables& tunables)
    : node_(std::move(node)),
      sink_(sink),
      // A quarter of the ring: an eager message and the gap before the ring's end always fit once the ring is empty.
      memory_(*node_, *this, std::min<size_t>(size_t(tunables.shm_eager_bytes), node_->ring_bytes() / 4), tunables) {
  properties_.name = "shm";
  properties_.eager_bytes = std::min<size_t>(size_t(tunables.shm_eager_bytes), node_->ring_bytes() / 4);
  properties_.peek = true;
  properties_.announce_from_bytes = properties_.eager_bytes + 1;
  properties_.hybrid_bytes = size_t(tunables.shm_hybrid_bytes);
  quantum_ = quantum_awake();

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
    peers_[slot] = std::make_unique<Peer>(*node_, slot);
    TERN_DEBUG_ASSERT(!by_rank_[peers_[slot]->id]);
    by_rank_[peers_[slot]->id] = peers_[slot].get();
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
    if (peer->in.next_is_here()) return true;
  }
  for (Peer* peer : busy_) {
    if (peer->out.space_came()) return true;
  }
  IntrusiveList<ShmCondition>& conditions = node_->conditions();
  for (ShmCondition* one = conditions.front(); one; one = conditions.next(one)) {
    if (one->ready()) return true;
  }
  return false;
}

bool ShmPath::arm() {
  for (Peer* peer : active_) give_back_now(*peer);
  declare_asleep();
  asleep_ = true;
  cell_quantum_ = quantum_ = 1;
  if (!anything_here()) return true;
  disarm();
  return false;
}

void ShmPath::declare_asleep() {
  node_->declare_asleep(shm::kAsleep | (busy_.empty() ? 0 : shm::kWantsSpace) | (helped_ ? shm::kHelped : 0));
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

}  // namespace tern
