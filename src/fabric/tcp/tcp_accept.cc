// How connections come, continued: being called, and the handshake on either side. What is not proven costs
// little: at most kMaxUnproven connections of a few KiB each, a deadline, and silence towards whoever fails.
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "fabric/tcp/tcp_path.h"

namespace tern {
namespace {

using wire::Verdict;

constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs, kNever = ~uint64_t{0};
// A peer may call and then compute before it looks at the answer; there is no hurry while there is room.
constexpr uint64_t kUnprovenDeadline_ns = 60 * kSecond;
// Connections accepted in one go: a flood must not keep the rank from its messages.
constexpr int kMaxAccepts = 32;
// Who has greeted keeps its place so long, even when all places are taken.
constexpr uint64_t kGreetedGrace_ns = kSecond;
// Without a place or a descriptor for them, callers stay in the kernel's queue for so long.
constexpr uint64_t kDeafness_ns = 20 * kMs;

}  // namespace

// --- Being called.

void TcpPath::accept_some(Listener& listener) {
  for (int i = 0; i < kMaxAccepts; ++i) {
    if (unproven_ >= kMaxUnproven && !make_room()) return go_deaf();
    SocketAddress from;
    Descriptor fd = accept_from(listener.fd.get(), from);
    if (!fd) {
      if (errno == ECONNABORTED || errno == EINTR) continue;
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
      if (make_room()) continue;
      return go_deaf();
    }
    shape(fd.get());
    auto setup = std::make_unique<Setup>(identity_);
    setup->fd = std::move(fd);
    setup->where = from.text();
    setup->deadline_ns = clock_.now_ns() + kUnprovenDeadline_ns;
    unproven_list_.push_back(setup.get());
    ++unproven_;
    Setup& entered = *setup;
    watch(*adopt(std::move(setup), Endpoint::Kind::setup), EPOLLIN);
    on_setup(entered, EPOLLIN);  // its first bytes mostly are here already
  }
}

// Puts one unproven connection out: the oldest of those that have not even greeted, else the oldest if it had
// its time.
bool TcpPath::make_room() {
  Setup* victim = unproven_list_.front();
  while (victim && victim->handshake.greeted()) victim = unproven_list_.next(victim);
  if (!victim) {
    victim = unproven_list_.front();
    uint64_t until_ns = kUnprovenDeadline_ns - kGreetedGrace_ns;  // what a deadline past its grace has left
    if (!victim || victim->deadline_ns > clock_.now_ns() + until_ns) return false;
  }
  drop(*victim);
  return true;
}

void TcpPath::go_deaf() {
  deafness_ends_ns_ = clock_.now_ns() + kDeafness_ns;
  for (auto& endpoint : endpoints_) {
    if (endpoint->kind == Endpoint::Kind::listener) watch(*endpoint, 0);
  }
}

// --- The handshake, on either side.

void TcpPath::on_setup(Setup& setup, uint32_t events) {
  if (!setup.connected) {
    int trouble = 0;
    socklen_t bytes = sizeof trouble;
    getsockopt(setup.fd.get(), SOL_SOCKET, SO_ERROR, &trouble, &bytes);
    if (trouble != 0) {
      if (trouble != ECONNREFUSED) setup.peer->only_refusals = false;
      return attempt_failed(setup, errno_text(trouble));
    }
    if (!(events & EPOLLOUT)) return;
    setup.connected = true;
    setup.deadline_ns = kNever;  // a peer that computes may take its time to answer
    watch(setup, EPOLLIN);
    if (!send_output(setup)) return attempt_failed(setup, "closed before the greeting");
  }
  while (setup.handshake.state() == TcpHandshake::State::talking) {
    std::byte bytes[1024];
    ssize_t n = recv(setup.fd.get(), bytes, std::min(sizeof bytes, setup.handshake.need()), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      std::string trouble = n == 0 ? "the connection was closed during the handshake" : errno_text(errno);
      return setup.peer ? attempt_failed(setup, trouble) : drop(setup);
    }
    setup.handshake.feed(bytes, size_t(n));
    if (setup.handshake.state() == TcpHandshake::State::rubbish || !send_output(setup)) {
      return setup.peer ? attempt_failed(setup, "what answers there is not of this job") : drop(setup);
    }
  }
  if (setup.handshake.state() == TcpHandshake::State::asks) return answer(setup);
  conclude(setup);
}

bool TcpPath::send_output(Setup& setup) {
  std::string& output = setup.handshake.output();
  if (output.empty()) return true;
  // A new connection's buffer takes these few hundred bytes; one that does not is not worth keeping.
  ssize_t n = send(setup.fd.get(), output.data(), output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  bool whole = n == ssize_t(output.size());
  output.clear();
  return whole;
}

// The caller has proven itself: is its connection the one to be used?
void TcpPath::answer(Setup& setup) {
  PeerId id = setup.handshake.peer();
  Verdict verdict = Verdict::accept;
  Peer* peer = id < options_.size ? &peer_at(id) : nullptr;
  if (!peer || peer->state == PeerState::departed || peer->state == PeerState::lost) {
    verdict = Verdict::refused;
  } else if (peer->link) {
    verdict = Verdict::keep_other;
  } else if (peer->setup && peer->setup->handshake.committed() && identity_.rank < id) {
    // Both have called, and the peer may already rely on our connection: the lower rank's is kept. An attempt
    // that is not committed can be given up without harm, the peer has heard nothing of it that counts.
    verdict = Verdict::keep_other;
  }
  setup.handshake.decide(verdict);
  if (!send_output(setup) || verdict != Verdict::accept) return drop(setup);
  establish(setup, *peer);
}

// The handshake is over.
void TcpPath::conclude(Setup& setup) {
  Verdict verdict = setup.handshake.verdict();
  if (!setup.peer) {
    // Incoming, and no connection. A mismatch concerns both sides: it would come up again with our own call.
    PeerId id = setup.handshake.peer();
    if ((verdict == Verdict::version || verdict == Verdict::agreement) && id < options_.size &&
        id != identity_.rank) {
      Peer& peer = peer_at(id);
      if (!peer.link) doom(peer, int(ErrorClass::other), setup.handshake.describe(verdict));
    }
    return drop(setup);
  }
  Peer& peer = *setup.peer;
  switch (verdict) {
    case Verdict::accept:
      return establish(setup, peer);
    case Verdict::keep_other:
      // The peer's own call is on its way; should it fail, ours is repeated.
      drop(setup);
      peer.next_candidate = 0;
      peer.retry_ns = clock_.now_ns() + kSecond;
      return;
    case Verdict::wrong_rank:
      return attempt_failed(setup, "another rank answers there");
    case Verdict::version:
    case Verdict::agreement:
      doom(peer, int(ErrorClass::other), setup.handshake.describe(verdict));
      break;
    case Verdict::refused:
      doom(peer, int(ErrorClass::proc_aborted), setup.where + ": it refuses the connection");
      break;
  }
  drop(setup);
}

void TcpPath::establish(Setup& setup, Peer& peer) {
  TERN_ASSERT(!peer.link);
  if (peer.setup && peer.setup != &setup) drop(*peer.setup);
  auto link = std::make_unique<Link>();
  watch(setup, 0);
  link->fd = std::move(setup.fd);
  link->where = setup.where;
  link->peer = &peer;
  drop(setup);
  if (peer.state == PeerState::calling) --calling_;
  peer.state = PeerState::established;
  peer.link = link.get();
  peer.retry_ns = kNever;
  peer.candidates = {};
  ++links_;
  watch(*adopt(std::move(link), Endpoint::Kind::link), EPOLLIN);
  heat(*peer.link);
  flush(peer);
}

}  // namespace tern
