// How connections come: listening, calling, and the timers of all that. (Being called and the handshake:
// tcp_accept.cc.)
#include <netinet/in.h>
#include <netinet/tcp.h>
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

constexpr uint64_t kMs = 1'000'000, kSecond = 1000 * kMs, kNever = ~uint64_t{0};
// With other addresses left to try, one that does not answer is given so long (a network's round trip is 1000
// times less).
constexpr uint64_t kAttempt_ns = 2 * kSecond;
// The same for a peer that has been connected before, and how often a lane tries to get back to its own network.
constexpr uint64_t kRepeatedAttempt_ns = kSecond, kHomecoming_ns = kSecond;
// Rounds in which nobody listened anywhere: the peer was there when it published its card, so it has ended.
constexpr int kRefusedRounds = 3;
// How long a host may take to answer that it is there, when nothing else of it answers.
constexpr uint64_t kHostAnswer_ns = 3 * kSecond;
constexpr uint16_t kPortsTried = 1024;

std::string agreement_of(const Tunables& tunables) {
  std::string out;
#define TERN_AGREE(name, initial, minimum, maximum, unit, agree, ...) \
  if (agree) out += #name "=" + std::to_string(tunables.name) + "\n";
  TERN_INTEGER_TUNABLES(TERN_AGREE)
#undef TERN_AGREE
  return out;
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
      table_(*options.peers),
      clock_(clock),
      sink_(sink),
      lookup_(std::move(lookup)),
      identity_{table_.my_name(), options.key, wire::kVersion, agreement_of(tunables), tunables.encrypt != 0, &table_},
      interfaces_(tunables.tcp_interfaces),
      congestion_(tunables.tcp_congestion),
      first_port_(uint16_t(tunables.tcp_port_first)),
      connect_timeout_ns_(uint64_t(tunables.tcp_connect_timeout_s) * kSecond),
      max_lanes_(std::min(size_t(tunables.tcp_lanes), wire::kMaxLanes)),
      stripe_bytes_(size_t(tunables.tcp_stripe_bytes)) {
  sending_.scratch.reset(new std::byte[TcpOutbound::kScratchBytes]);
  encrypted_ = tunables.encrypt != 0;
  sending_.sealed = tunables.tcp_crc != 0 || encrypted_;
  properties_.name = "tcp";
  properties_.eager_bytes = sending_.eager_bytes = size_t(tunables.tcp_eager_bytes);
  properties_.keep_from_bytes = TcpOutbound::kCopyFirst;
  properties_.announce_from_bytes = properties_.eager_bytes + 1;
}

Error TcpPath::start() {
  if (sodium_init() < 0) return Error(ErrorClass::other, "libsodium found no source of randomness");
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return Error(ErrorClass::other, "TCP path: epoll_create1: " + errno_text(errno));
  if (Error error = check_congestion()) return error;
  // A rank may hold a connection to every other; the usual soft limit is 1024 descriptors, the hard one far above.
  raise_descriptor_limit(uint64_t(table_.size()) + kMaxUnproven + 256);
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
  if (card.addresses.empty() && table_.size() > 1) return Error(ErrorClass::other, "TCP path: " + trouble);
  card_ = wire::build_card(card);
  if (several_networks()) {
    auto interfaces = std::make_unique<Interfaces>();
    interfaces->fd = InterfaceWatch::open();
    if (interfaces->fd) watch(*adopt(std::move(interfaces), Endpoint::Kind::interfaces), EPOLLIN);
  }
  if (options_.log && options_.log->wants(LogLevel::info)) {
    std::string text = "tcp: listening on";
    for (const wire::CardAddress& address : card.addresses) text += " " + wire::to_text(address);
    options_.log->info(text);
  }
  return {};
}

Error TcpPath::listen(const LocalAddress& local, uint16_t first_port, uint16_t& port) {
  wire::CardAddress address = local.address;
  Descriptor fd;
  for (uint32_t i = 0; i < kPortsTried; ++i) {
    if (first_port + i > 65535) break;
    address.port = uint16_t(first_port + i);
    fd = listen_on(SocketAddress(address, address.link_local() ? local.index : 0), congestion_);
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
  if (options_.send_buffer_bytes != 0)
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &options_.send_buffer_bytes, sizeof(int));
}

// A name that nobody knows is better heard of now.
Error TcpPath::check_congestion() const {
  if (congestion_.empty()) return {};
  const Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, congestion_.data(), socklen_t(congestion_.size())) == 0)
    return {};
  return Error(ErrorClass::arg,
               "TERN_TCP_CONGESTION is '" + congestion_ +
                   "', which is none of this host's net.ipv4.tcp_allowed_congestion_control: " + errno_text(errno));
}

void TcpPath::drop(Setup& setup) {
  if (setup.linked()) {
    setup.unlink();
    --unproven_;
  }
  if (setup.lane) setup.lane->setup = nullptr;
  retire(setup);
}

// --- Calling.

void TcpPath::set_timed(Stream& lane, bool timed) {
  if (lane.timed == timed) return;
  lane.timed = timed;
  timed_ += timed ? 1 : size_t(-1);
}

// Learns the peer's addresses, once.
Error TcpPath::look_up(Peer& peer) {
  if (peer.looked_up) return {};
  std::string text;
  wire::Card card;
  Error error = lookup_(peer.id, text);
  if (!error) error = wire::parse_card(text, card);
  if (error) return std::move(error).context("its address is not known");
  peer.candidates = rank_candidates(addresses_, host_, card);
  std::erase_if(peer.candidates, [](const TcpCandidate& candidate) {
    return !has_route(SocketAddress(candidate.address, candidate.scope));
  });
  peer.looked_up = !peer.candidates.empty();
  if (peer.looked_up) return {};
  std::string theirs, ours;
  for (auto& address : card.addresses) theirs += " " + wire::to_text(address);
  for (auto& local : addresses_) ours += " " + local.interface;
  return Error(ErrorClass::other, "no network leads from here (interfaces" + ours + ") to any of its addresses (" +
                                      (theirs.empty() ? "none" : theirs.substr(1)) +
                                      "). TERN_TCP_INTERFACES chooses which networks are used");
}

// Begins to call: for the first time, or after a connection was lost.
void TcpPath::contact(Stream& lane) {
  lane.state = StreamState::calling;
  set_timed(lane, true);
  lane.give_up_ns = clock_.now_ns() + connect_timeout_ns_;
  lane.next_candidate = 0;
  lane.rounds = lane.hang_ups = 0;
  lane.only_refusals = true;
  lane.refused = lane.unanswered = false;
  if (Error error = look_up(lane.peer)) return doom(lane.peer, error.error_class(), std::string(error.text()));
  lane.candidates = lane.peer.candidates;
  // Stream k prefers the k-th of the networks, in the order of their first addresses.
  std::vector<uint32_t> networks;
  for (auto& candidate : lane.candidates) {
    if (std::find(networks.begin(), networks.end(), candidate.network) == networks.end())
      networks.push_back(candidate.network);
  }
  uint32_t own = networks[lane.index % networks.size()];
  std::stable_partition(lane.candidates.begin(), lane.candidates.end(),
                        [&](auto& candidate) { return candidate.network == own; });
  if (lane.generation == 0) next_attempt(lane);
}

void TcpPath::next_attempt(Stream& lane) {
  while (lane.next_candidate < lane.candidates.size()) {
    const TcpCandidate& candidate = lane.candidates[lane.next_candidate++];
    if (lane.link && candidate.network != lane.candidates.front().network) break;  // it only wants home
    SocketAddress address(candidate.address, candidate.scope);
    lane.proposed = std::max(lane.proposed, lane.generation) + 1;
    auto setup =
        std::make_unique<Setup>(identity_, table_.name(lane.peer.id), lane.index, lane.proposed, lane.generation);
    int result = begin_connect(address, setup->fd, congestion_);
    setup->where = address.text();
    if (result != 0 && result != EINPROGRESS) {
      (result == ECONNREFUSED ? lane.refused : lane.only_refusals) = result == ECONNREFUSED;
      lane.peer.trouble = setup->where + ": " + errno_text(result);
      continue;
    }
    shape(setup->fd.get());
    ask_if_alive(setup->fd.get(), true);
    uint64_t now = clock_.now_ns();
    bool last = lane.next_candidate == lane.candidates.size() && lane.generation == 0;
    setup->deadline_ns = last                   ? std::max(lane.give_up_ns, now + kAttempt_ns)
                         : lane.generation == 0 ? now + kAttempt_ns
                                                : now + kRepeatedAttempt_ns;
    setup->connected = false;
    setup->lane = &lane;
    lane.setup = setup.get();
    watch(*adopt(std::move(setup), Endpoint::Kind::setup), EPOLLIN | EPOLLOUT);
    // On loopback the connection stands already, only the call did not say so: greet at once.
    pollfd ready{lane.setup->fd.get(), POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 1 && ready.revents == POLLOUT) on_setup(*lane.setup, EPOLLOUT);
    return;
  }
  end_round(lane);
}

// All addresses have been tried in vain; later again, unless there is no hope.
void TcpPath::end_round(Stream& lane) {
  uint64_t now = clock_.now_ns();
  lane.next_candidate = 0;
  if (lane.link) {  // it only wanted back to its own network
    lane.retry_ns = now + kHomecoming_ns;
    return;
  }
  ++lane.rounds;
  // Who has listened at an address and does so no more has ended, whatever other addresses say; if its connection was
  // closed too there is no doubt.
  bool nobody_there =
      (lane.generation != 0 ? lane.refused : lane.only_refusals) && (lane.closed || lane.rounds >= kRefusedRounds);
  if (!nobody_there && now >= lane.give_up_ns && lane.unanswered && host_answers(lane)) {
    // Its process is there, or its kernel would refuse the call; but it does not take calls: it computes, and others
    // have filled its queue.
    lane.give_up_ns = now + connect_timeout_ns_;
    if (options_.log) {
      options_.log->info("tcp: rank " + std::to_string(lane.peer.id) +
                         " takes no connections, but its host answers; waiting on");
    }
  }
  if (nobody_there || now >= lane.give_up_ns + (lane.host.asked() ? kHostAnswer_ns : 0)) {
    std::string trouble = "it cannot be reached: " + lane.peer.trouble;
    if (!lane.loss.empty()) trouble = lane.loss + "; called again, " + trouble;
    return doom(lane.peer, int(ErrorClass::proc_aborted), std::move(trouble));
  }
  lane.only_refusals = true;
  lane.refused = lane.unanswered = false;
  lane.retry_ns = now + std::min(kSecond, (20 * kMs) << std::min(lane.rounds, 6));
}

// Asks the peer's host when that was not done yet; true when it has answered.
bool TcpPath::host_answers(Stream& lane) {
  if (lane.host.answered()) return true;
  if (!lane.host.asked() && !lane.candidates.empty()) {
    const TcpCandidate& candidate = lane.candidates[size_t(lane.rounds) % lane.candidates.size()];
    lane.host.ask(SocketAddress(candidate.address, candidate.scope));
  }
  return false;
}

// An attempt of ours has ended without a connection.
void TcpPath::attempt_failed(Setup& setup, const std::string& trouble) {
  Stream& lane = *setup.lane;
  lane.peer.trouble = setup.where + ": " + trouble;
  if (setup.connected) {
    // The peer was there, perhaps for a long time before it answered: the clock starts now.
    lane.only_refusals = false;
    if (lane.hang_ups++ == 0 && lane.generation == 0) lane.give_up_ns = clock_.now_ns() + connect_timeout_ns_;
  }
  drop(setup);
  if (lane.link) {
    end_round(lane);
  } else {
    next_attempt(lane);
  }
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
  if (timed_ == 0) return;
  for (auto& peer : peers_) {
    if (!peer || peer->doomed) continue;
    for (auto& lane : peer->lanes) {
      if (!lane || !lane->timed) continue;
      if (lane->setup) {
        if (lane->setup->deadline_ns > now) continue;
        lane->only_refusals = false;
        lane->unanswered = true;
        attempt_failed(*lane->setup, "no answer");
      } else if (lane->retry_ns <= now) {
        lane->retry_ns = kNever;
        next_attempt(*lane);
      }
    }
  }
}

uint64_t TcpPath::next_deadline_ns() const {
  uint64_t earliest = std::min(wake_ns_, deafness_ends_ns_ != 0 ? deafness_ends_ns_ : kNever);
  if (unproven_ != 0) {
    // The list is in the order of deadlines.
    earliest = std::min(earliest, const_cast<IntrusiveList<Setup>&>(unproven_list_).front()->deadline_ns);
  }
  if (timed_ == 0) return earliest;
  for (auto& peer : peers_) {
    if (!peer || peer->doomed) continue;
    for (auto& lane : peer->lanes) {
      if (lane && lane->timed) earliest = std::min(earliest, lane->setup ? lane->setup->deadline_ns : lane->retry_ns);
    }
  }
  return earliest;
}

}  // namespace tern
