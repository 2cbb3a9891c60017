// How connections come: listening, calling, being called, and the timers of all that. What is not proven costs little:
// at most kMaxUnproven connections of a few KiB each, a deadline, and silence towards whoever fails.
#include <poll.h>
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "base/assert.h"
#include "fabric/tcp/tcp_path.h"

namespace tern {
namespace {

using wire::Verdict;

constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs, kNever = ~uint64_t{0};
// Connections in their handshake at one time. A peer's hello comes with its connection, and who has greeted is the last
// to be put out, so a flood of others does not displace it.
constexpr size_t kMaxUnproven = 256;
// A peer may call and then compute before it looks at the answer; there is no hurry while there is room.
constexpr uint64_t kUnprovenDeadline_ns = 60 * kSecond;
// Connections accepted in one go: a flood must not keep the rank from its messages.
constexpr int kMaxAccepts = 32;
// With other addresses left to try, one that does not answer is given so long (a network's round trip is 1000 times less).
constexpr uint64_t kAttempt_ns = 2 * kSecond;
// Rounds in which nobody listened anywhere: the peer was there when it published its card, so it has ended.
constexpr int kRefusedRounds = 3;
// Who has greeted keeps its place so long, even when all places are taken.
constexpr uint64_t kGreetedGrace_ns = kSecond;
// Without a place or a descriptor for them, callers stay in the kernel's queue for so long.
constexpr uint64_t kDeafness_ns = 20 * kMs;
constexpr uint16_t kPortsTried = 1024;

std::string agreement_of(const Tunables& tunables) {
  std::string out;
#define TERN_AGREE(name, initial, minimum, maximum, unit, agree, ...) \
  if (agree) out += #name "=" + std::to_string(tunables.name) + "\n";
  TERN_INTEGER_TUNABLES(TERN_AGREE)
#undef TERN_AGREE
  return out;
}

// A rank may hold a connection to every other; the usual soft limit is 1024 descriptors, the hard one far above.
void allow_descriptors(uint64_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::unique_ptr<TcpPath> TcpPath::create(const TcpOptions& options, const Tunables& tunables, Clock& clock, Sink& sink,
                                         Lookup lookup, Error& error) {
  std::unique_ptr<TcpPath> path(new TcpPath(options, tunables, clock, sink, std::move(lookup)));
  error = path->start();
  if (error) path.reset();
  return path;
}

TcpPath::TcpPath(const TcpOptions& options, const Tunables& tunables, Clock& clock, Sink& sink, Lookup lookup)
    : options_(options),
      clock_(clock),
      sink_(sink),
      lookup_(std::move(lookup)),
      identity_{options.rank, options.key, wire::kVersion, agreement_of(tunables)},
      interfaces_(tunables.tcp_interfaces),
      first_port_(uint16_t(tunables.tcp_port_first)),
      connect_timeout_ns_(uint64_t(tunables.tcp_connect_timeout_s) * kSecond),
      peers_(options.size),
      scratch_(new std::byte[TcpOutbound::kScratchBytes]) {
  properties_.name = "tcp";
  properties_.eager_bytes = size_t(tunables.tcp_eager_bytes);
  properties_.latency_ns = 4'000;  // loopback, both ranks polling (8 B: 3.5-4 us); a network's is above
  properties_.bytes_per_us = 4'000;
}

Error TcpPath::start() {
  if (sodium_init() < 0) return Error(ErrorClass::other, "libsodium found no source of randomness");
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return Error(ErrorClass::other, "TCP path: epoll_create1: " + errno_text(errno));
  allow_descriptors(uint64_t(options_.size) + kMaxUnproven + 256);
  host_ = host_identity();
  addresses_ = options_.addresses;
  if (addresses_.empty()) {
    if (Error error = usable_interfaces(interfaces_, addresses_)) return error;
  }
  if (options_.this_host_only) {
    std::erase_if(addresses_, [](const LocalAddress& local) { return !local.address.loopback(); });
  }
  wire::Card card;
  card.host = host_;
  std::string trouble = "this host has no address to listen on";
  for (const LocalAddress& local : addresses_) {
    wire::CardAddress address = local.address;
    Error error = listen(local, first_port_, address.port);
    if (error) {
      trouble = error.text();  // an IPv6 address that is still being checked for duplicates, for example
    } else if (address.port != 0) {
      card.addresses.push_back(address);
    }
  }
  if (card.addresses.empty() && options_.size > 1) return Error(ErrorClass::other, "TCP path: " + trouble);
  card_ = wire::build_card(card);
  return {};
}

Error TcpPath::listen(const LocalAddress& local, uint16_t first_port, uint16_t& port) {
  wire::CardAddress address = local.address;
  Descriptor fd;
  for (uint32_t i = 0; i < kPortsTried; ++i) {
    if (first_port + i > 65535) break;
    address.port = uint16_t(first_port + i);
    fd = listen_on(SocketAddress(address, address.link_local() ? local.index : 0));
    if (fd || errno != EADDRINUSE || first_port == 0) break;
  }
  if (!fd) return Error(ErrorClass::other, "cannot listen on " + wire::to_text(address) + ": " + errno_text(errno));
  port = local_address(fd.get()).port();
  auto listener = std::make_unique<Listener>();
  listener->fd = std::move(fd);
  watch(*adopt(std::move(listener), Endpoint::Kind::listener), EPOLLIN);
  return {};
}

// --- The epoll set.

TcpPath::Endpoint* TcpPath::adopt(std::unique_ptr<Endpoint> endpoint, Endpoint::Kind kind) {
  endpoint->kind = kind;
  endpoint->slot = endpoints_.size();
  endpoints_.push_back(std::move(endpoint));
  return endpoints_.back().get();
}

void TcpPath::watch(Endpoint& endpoint, uint32_t events) {
  if (endpoint.interest == events) return;
  epoll_event event{};
  event.events = events;
  event.data.ptr = &endpoint;
  int operation = endpoint.interest == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  TERN_ASSERT(epoll_ctl(epoll_.get(), operation, endpoint.fd.get(), &event) == 0);
  endpoint.interest = events;
}

void TcpPath::retire(Endpoint& endpoint) {
  if (endpoint.fd) watch(endpoint, 0);
  endpoint.fd.reset();
  endpoint.kind = Endpoint::Kind::dead;
  size_t slot = endpoint.slot;
  retired_.push_back(std::move(endpoints_[slot]));
  if (slot + 1 != endpoints_.size()) {
    endpoints_[slot] = std::move(endpoints_.back());
    endpoints_[slot]->slot = slot;
  }
  endpoints_.pop_back();
}

void TcpPath::shape(int fd) const {
  if (options_.send_buffer_bytes == 0) return;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &options_.send_buffer_bytes, sizeof(int));
}

void TcpPath::drop(Setup& setup) {
  if (setup.linked()) {
    setup.unlink();
    --unproven_;
  }
  if (setup.peer) setup.peer->setup = nullptr;
  retire(setup);
}

// --- Calling.

void TcpPath::contact(Peer& peer) {
  peer.state = PeerState::calling;
  ++calling_;
  peer.give_up_ns = clock_.now_ns() + connect_timeout_ns_;
  std::string text;
  wire::Card card;
  Error error = lookup_(peer.id, text);
  if (!error) error = wire::parse_card(text, card);
  if (error) return doom(peer, error.error_class(), "its address is not known: " + std::string(error.text()));
  peer.candidates = rank_candidates(addresses_, host_, card);
  std::erase_if(peer.candidates, [](const TcpCandidate& candidate) {
    return !has_route(SocketAddress(candidate.address, candidate.scope));
  });
  if (peer.candidates.empty()) {
    std::string theirs, ours;
    for (auto& address : card.addresses) theirs += " " + wire::to_text(address);
    for (auto& local : addresses_) ours += " " + local.interface;
    return doom(peer, int(ErrorClass::other), "no network leads from here (interfaces" + ours + ") to any of its addresses (" +
                                                  (theirs.empty() ? "none" : theirs.substr(1)) +
                                                  "). TERN_TCP_INTERFACES chooses which networks are used");
  }
  next_attempt(peer);
}

void TcpPath::next_attempt(Peer& peer) {
  while (peer.next_candidate < peer.candidates.size()) {
    const TcpCandidate& candidate = peer.candidates[peer.next_candidate++];
    SocketAddress address(candidate.address, candidate.scope);
    auto setup = std::make_unique<Setup>(identity_, peer.id);
    int result = begin_connect(address, setup->fd);
    setup->where = address.text();
    if (result != 0 && result != EINPROGRESS) {
      if (result != ECONNREFUSED) peer.only_refusals = false;
      peer.trouble = setup->where + ": " + errno_text(result);
      continue;
    }
    shape(setup->fd.get());
    uint64_t now = clock_.now_ns();
    bool last = peer.next_candidate == peer.candidates.size();
    setup->deadline_ns = last ? std::max(peer.give_up_ns, now + kAttempt_ns) : now + kAttempt_ns;
    setup->connected = false;
    setup->peer = &peer;
    peer.setup = setup.get();
    watch(*adopt(std::move(setup), Endpoint::Kind::setup), EPOLLIN | EPOLLOUT);
    // On loopback the connection stands already, only the call did not say so: greet at once.
    pollfd ready{peer.setup->fd.get(), POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 1 && ready.revents == POLLOUT) on_setup(*peer.setup, EPOLLOUT);
    return;
  }
  end_round(peer);
}

// All addresses have been tried in vain; later again, unless there is no hope.
void TcpPath::end_round(Peer& peer) {
  uint64_t now = clock_.now_ns();
  ++peer.rounds;
  bool nobody_there = peer.only_refusals && peer.rounds >= kRefusedRounds;
  if (nobody_there || now >= peer.give_up_ns) {
    return doom(peer, int(ErrorClass::proc_aborted), "it cannot be reached: " + peer.trouble);
  }
  peer.next_candidate = 0;
  peer.only_refusals = true;
  peer.retry_ns = now + std::min(kSecond, (20 * kMs) << std::min(peer.rounds, 6));
}

// An attempt of ours has ended without a connection.
void TcpPath::attempt_failed(Setup& setup, const std::string& trouble) {
  Peer& peer = *setup.peer;
  peer.trouble = setup.where + ": " + trouble;
  if (setup.connected) {
    // The peer was there, perhaps for a long time before it answered: the clock starts now.
    peer.only_refusals = false;
    if (peer.hang_ups++ == 0) peer.give_up_ns = clock_.now_ns() + connect_timeout_ns_;
  }
  drop(setup);
  next_attempt(peer);
}

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

// Puts one unproven connection out: the oldest of those that have not even greeted, else the oldest if it had its time.
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
    // Both have called, and the peer may already rely on our connection: the lower rank's is kept. An attempt that is
    // not committed can be given up without harm, the peer has heard nothing of it that counts.
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
    if ((verdict == Verdict::version || verdict == Verdict::agreement) && id < options_.size && id != identity_.rank) {
      Peer& peer = peer_at(id);
      if (!peer.link) doom(peer, int(ErrorClass::other), setup.handshake.describe(verdict));
    }
    return drop(setup);
  }
  Peer& peer = *setup.peer;
  switch (verdict) {
    case Verdict::accept: return establish(setup, peer);
    case Verdict::keep_other:
      // The peer's own call is on its way; should it fail, ours is repeated.
      drop(setup);
      peer.next_candidate = 0;
      peer.retry_ns = clock_.now_ns() + kSecond;
      return;
    case Verdict::wrong_rank: return attempt_failed(setup, "another rank answers there");
    case Verdict::version:
    case Verdict::agreement: doom(peer, int(ErrorClass::other), setup.handshake.describe(verdict)); break;
    case Verdict::refused: doom(peer, int(ErrorClass::proc_aborted), setup.where + ": it refuses the connection"); break;
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

// --- Timers.

void TcpPath::run_timers(uint64_t now) {
  while (Setup* oldest = unproven_list_.front()) {
    if (oldest->deadline_ns > now) break;
    drop(*oldest);
  }
  if (deafness_ends_ns_ != 0 && now >= deafness_ends_ns_) {
    deafness_ends_ns_ = 0;
    for (auto& endpoint : endpoints_) {
      if (endpoint->kind == Endpoint::Kind::listener) watch(*endpoint, EPOLLIN);
    }
  }
  if (calling_ == 0) return;
  for (auto& peer : peers_) {
    if (!peer || peer->state != PeerState::calling || peer->doomed) continue;
    if (peer->setup) {
      if (peer->setup->deadline_ns > now) continue;
      peer->only_refusals = false;
      attempt_failed(*peer->setup, "no answer");
    } else if (peer->retry_ns <= now) {
      peer->retry_ns = kNever;
      next_attempt(*peer);
    }
  }
}

uint64_t TcpPath::next_deadline_ns() const {
  uint64_t earliest = deafness_ends_ns_ != 0 ? deafness_ends_ns_ : kNever;
  if (unproven_ != 0) {
    // The list is in the order of deadlines.
    earliest = std::min(earliest, const_cast<IntrusiveList<Setup>&>(unproven_list_).front()->deadline_ns);
  }
  if (calling_ == 0) return earliest;
  for (auto& peer : peers_) {
    if (!peer || peer->state != PeerState::calling || peer->doomed) continue;
    earliest = std::min(earliest, peer->setup ? peer->setup->deadline_ns : peer->retry_ns);
  }
  return earliest;
}

}  // namespace tern
