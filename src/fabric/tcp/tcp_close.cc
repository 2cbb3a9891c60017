// How connections go: a peer's orderly goodbye, its loss, and our own end.
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <cerrno>

#include "base/assert.h"
#include "fabric/tcp/tcp_path.h"

namespace tern {
namespace {

// The orderly end waits for peers that still read; this long at most, for one that does not.
constexpr uint64_t kCloseTimeout_ns = 5'000'000'000;

}  // namespace

Error TcpPath::reason(const Peer& peer) const {
  return Error(peer.error_class, "rank " + std::to_string(peer.id) + ": " + peer.trouble);
}

// For places that must not call the sink: the peer is lost in the next poll, or if it is so already, what is
// queued for it fails then.
void TcpPath::doom(Peer& peer, int error_class, std::string trouble) {
  if (peer.trouble != trouble) peer.trouble = std::move(trouble);
  peer.error_class = error_class;
  if (peer.doomed) return;
  peer.doomed = true;
  doomed_.push_back(&peer);
}

int TcpPath::lose_doomed() {
  // Done-functions may send to the same peer again; that is for the next poll.
  std::vector<Peer*> now;
  now.swap(doomed_);
  int handled = 0;
  for (Peer* peer : now) {
    peer->doomed = false;
    if (peer->link) continue;  // meanwhile the peer has called us
    handled += lose(*peer);
  }
  return handled;
}

int TcpPath::fail_operations(Peer& peer) {
  SendList failed;
  peer.outbound.surrender(failed);
  int handled = 0;
  while (SendOperation* operation = failed.pop_front()) {
    ++handled;
    operation->done(*operation, reason(peer));
  }
  return handled;
}

int TcpPath::lose(Peer& peer) {
  if (peer.setup) drop(*peer.setup);
  if (peer.state == PeerState::calling) --calling_;
  if (peer.state != PeerState::departed) peer.state = PeerState::lost;
  int handled = fail_operations(peer);
  if (peer.state == PeerState::lost && !peer.announced) {
    peer.announced = true;
    ++handled;
    sink_.on_peer_lost(peer.id, reason(peer));
  }
  return handled;
}

// A connection has come to its end, in order or not. (The place for resuming it: a later issue.)
int TcpPath::link_ended(Link& link, TcpInbound::State how) {
  Peer& peer = *link.peer;
  int said = link.inbound.error() != 0 ? link.inbound.error() : peer.outbound.error();
  bool in_order = how == TcpInbound::State::ended && link.inbound.departed();
  peer.error_class = int(ErrorClass::proc_aborted);
  if (in_order) {
    peer.state = PeerState::departed;
    peer.trouble = "it has ended its part of the job and receives no more";
  } else {
    peer.state = PeerState::lost;
    std::string what = how == TcpInbound::State::wrong ? "it sent what is no message"
                       : said != 0
                           ? errno_text(said)
                           : "it closed the connection without a goodbye, so it was killed or has crashed";
    peer.trouble = "the connection to " + link.where + " is lost: " + what;
  }
  peer.link = nullptr;
  if (peer.linked()) peer.unlink();
  cool(link);
  --links_;
  retire(link);
  if (!in_order) link.inbound.abandon(peer.id, sink_, reason(peer));
  return lose(peer);
}

void TcpPath::break_connection(PeerId id) {
  Peer& peer = peer_at(id);
  if (peer.link) shutdown(peer.link->fd.get(), SHUT_RDWR);
}

TcpPath::~TcpPath() {
  close_in_order();
  // Operations that are still here belong to requests that are being destroyed too; nobody waits for them.
  SendList forgotten;
  for (auto& peer : peers_) {
    if (!peer) continue;
    if (peer->linked()) peer->unlink();
    peer->outbound.surrender(forgotten);
  }
  while (forgotten.pop_front()) {
  }
  while (finished_.pop_front()) {
  }
  while (unproven_list_.pop_front()) {
  }
}

// Everything sent is delivered before the sockets close. A socket that is closed while the peer's data arrive
// resets the connection, and with it what we sent and the peer has not got: so we say goodbye, close our
// direction, and read the other until the peer has closed too or has acknowledged all we sent (what it has, a
// reset cannot take from it).
void TcpPath::close_in_order() {
  struct Closing {
    Peer* peer;
    bool said = false;
  };
  std::vector<Closing> open;
  for (auto& peer : peers_) {
    if (!peer || !peer->link) continue;
    open.push_back({peer.get()});
  }
  uint64_t deadline = clock_.now_ns() + kCloseTimeout_ns;
  std::vector<pollfd> waits;
  while (!open.empty()) {
    waits.clear();
    std::erase_if(open, [&](Closing& closing) {
      Peer& peer = *closing.peer;
      int fd = peer.link->fd.get();
      for (;;) {
        ssize_t n = recv(fd, scratch_.get(), TcpOutbound::kScratchBytes, MSG_DONTWAIT);
        if (n > 0 || (n < 0 && errno == EINTR)) continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return true;
        if (n == 0 && closing.said) return true;
        break;
      }
      TcpOutbound::Flush flushed = peer.outbound.flush(fd, finished_, scratch_.get());
      if (flushed == TcpOutbound::Flush::all && !closing.said) {
        peer.outbound.say_goodbye();
        closing.said = true;
        flushed = peer.outbound.flush(fd, finished_, scratch_.get());
      }
      if (flushed == TcpOutbound::Flush::broken) return true;
      if (flushed == TcpOutbound::Flush::all) {
        shutdown(fd, SHUT_WR);
        int unacknowledged = 0;
        if (ioctl(fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0) return true;
      }
      waits.push_back({fd, short(flushed == TcpOutbound::Flush::blocked ? POLLIN | POLLOUT : POLLIN), 0});
      return false;
    });
    if (open.empty() || clock_.now_ns() >= deadline) break;
    (void)::poll(waits.data(), nfds_t(waits.size()), 1);
  }
}

}  // namespace tern
