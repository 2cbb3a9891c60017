// The way of the data: from try_send and enqueue to the socket, from the socket to the sink.
#include "fabric/tcp/tcp_path.h"

#include <sys/epoll.h>

#include <utility>

#include "base/assert.h"

namespace tern {
namespace {

// With one busy connection a poll costs one recv (0.2 us when there is nothing); all others are looked at
// after so many of them, so that a message from a quiet peer waits 2 us at most.
constexpr uint32_t kEventInterval = 8;
constexpr int kMaxEvents = 64;
// Completions of one poll: a done-function may send again, and what it sends may leave at once.
constexpr int kMaxCompletions = 1024;
// Blocked connections tried again in one poll.
constexpr int kMaxFlushes = 4;

}  // namespace

TcpPath::Peer& TcpPath::peer_at(PeerId id) {
  TERN_ASSERT(id < options_.size && id != identity_.rank);
  std::unique_ptr<Peer>& slot = peers_[id];
  if (!slot) {
    slot = std::make_unique<Peer>();
    slot->id = id;
  }
  return *slot;
}

bool TcpPath::try_send(PeerId id, const wire::Header& header, const void* payload, size_t bytes) {
  TERN_DEBUG_ASSERT(bytes <= properties_.eager_bytes);
  Peer& peer = peer_at(id);
  if (peer.link) {
    if (!peer.outbound.try_send(peer.link->fd.get(), header, payload, bytes)) return false;
    if (!peer.outbound.empty() && !peer.linked()) blocked_.push_back(&peer);
    return true;
  }
  if (peer.state == PeerState::fresh) contact(peer);
  return false;
}

void TcpPath::enqueue(SendOperation& operation) {
  Peer& peer = peer_at(operation.peer);
  peer.outbound.enqueue(operation);
  switch (peer.state) {
    case PeerState::fresh:
      contact(peer);
      break;
    case PeerState::calling:
      break;
    case PeerState::established:
      flush(peer);
      break;
    case PeerState::departed:
      doom(peer, int(ErrorClass::proc_aborted), "it has ended its part of the job and receives no more");
      break;
    case PeerState::lost:
      doom(peer, peer.error_class, peer.trouble);
      break;
  }
}

bool TcpPath::withdraw(SendOperation& operation) {
  return peer_at(operation.peer).outbound.withdraw(operation);
}

void TcpPath::flush(Peer& peer) {
  TcpOutbound::Flush result = peer.outbound.flush(peer.link->fd.get(), finished_, scratch_.get());
  // A broken socket is not blocked: its end shows when it is read, after everything the peer sent before.
  bool blocked = result == TcpOutbound::Flush::blocked;
  if (blocked && !peer.linked()) blocked_.push_back(&peer);
  if (!blocked && peer.linked()) peer.unlink();
  // While ranks poll, a blocked connection is simply tried again; only a sleeper must be told by the kernel.
  watch(*peer.link, blocked && armed_ != 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

int TcpPath::complete() {
  int done = 0;
  while (done < kMaxCompletions) {
    SendOperation* operation = finished_.pop_front();
    if (!operation) break;
    ++done;
    operation->done(*operation, {});
  }
  return done;
}

int TcpPath::poll() {
  retired_.clear();
  int handled = 0;
  more_ = false;
  if (hot_count_ != 0) {
    handled += receive(*hot_[0]);
    if (handled == 0 && hot_count_ > 1 && (++turn_ & 1)) {
      size_t other = 1 + turn_ / 2 % (hot_count_ - 1);
      handled += receive(*hot_[other]);
      if (handled != 0 && other < hot_count_) std::swap(hot_[0], hot_[other]);
    }
  }
  Peer* last = blocked_.back();
  for (int i = 0; i < kMaxFlushes && !blocked_.empty(); ++i) {
    Peer* peer = blocked_.pop_front();  // flush puts it to the back if it still is blocked
    flush(*peer);
    if (peer == last) break;
  }

  if (hot_count_ == 0 || ++rounds_since_events_ >= kEventInterval) handled += poll_events();
  if (!doomed_.empty()) handled += lose_doomed();
  if (!finished_.empty()) handled += complete();
  return handled;
}

int TcpPath::poll_events() {
  rounds_since_events_ = 0;
  epoll_event events[kMaxEvents];
  int n = epoll_wait(epoll_.get(), events, kMaxEvents, 0);
  int handled = 0;
  for (int i = 0; i < n; ++i) {
    auto& endpoint = *static_cast<Endpoint*>(events[i].data.ptr);
    switch (endpoint.kind) {
      case Endpoint::Kind::dead:
        break;  // retired while an earlier event was handled
      case Endpoint::Kind::listener:
        accept_some(static_cast<Listener&>(endpoint));
        break;
      case Endpoint::Kind::setup:
        on_setup(static_cast<Setup&>(endpoint), events[i].events);
        break;
      case Endpoint::Kind::link: {
        auto& link = static_cast<Link&>(endpoint);
        if (events[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
          heat(link);
          handled += receive(link);
        }
        break;
      }
    }
  }
  if (unproven_ != 0 || calling_ != 0 || deafness_ends_ns_ != 0) run_timers(clock_.now_ns());
  return handled;
}

int TcpPath::receive(Link& link) {
  int handled = 0;
  TcpInbound::State state = link.inbound.receive(link.fd.get(), link.peer->id, sink_, scratch_.get(),
                                                 TcpOutbound::kScratchBytes, handled);
  switch (state) {
    case TcpInbound::State::idle:
      break;
    case TcpInbound::State::more:
      more_ = true;
      break;
    case TcpInbound::State::ended:
    case TcpInbound::State::broken:
    case TcpInbound::State::wrong:
      handled += link_ended(link, state);
      break;
  }
  return handled;
}

// Makes the connection one of those that every poll reads.
void TcpPath::heat(Link& link) {
  size_t at = 0;
  while (at < hot_count_ && hot_[at] != &link) ++at;
  if (at < hot_count_) return;
  if (hot_count_ < kHot) {
    hot_[hot_count_++] = &link;
  } else {
    hot_[1 + turn_++ % (kHot - 1)] = &link;
  }
}

void TcpPath::cool(Link& link) {
  for (size_t i = 0; i < hot_count_; ++i) {
    if (hot_[i] == &link) hot_[i] = hot_[--hot_count_];
  }
}

bool TcpPath::arm() {
  if (!finished_.empty() || !doomed_.empty() || more_) return false;
  for (Peer* peer = blocked_.front(); peer; peer = blocked_.next(peer))
    watch(*peer->link, EPOLLIN | EPOLLOUT);
  ++armed_;
  return true;
}

void TcpPath::disarm() {
  if (--armed_ != 0) return;
  for (Peer* peer = blocked_.front(); peer; peer = blocked_.next(peer)) watch(*peer->link, EPOLLIN);
}

bool TcpPath::has_unsent() const {
  for (const auto& peer : peers_) {
    if (peer && !peer->outbound.empty()) return true;
  }
  return false;
}

}  // namespace tern
