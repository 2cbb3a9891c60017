// Set-up of connections: listening, calling, and their timers. (Incoming calls and the handshake:
// tcp_accept.cc.)
#include <sodium.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "fabric/tcp/tcp_path.h"

namespace tern {

using tcp::StreamState;

namespace {

constexpr const char* kRemedies =
    ". Is a firewall between the hosts, or does none of these networks lead there? TERN_TCP_INTERFACES chooses the "
    "networks, TERN_TCP_PORT_FIRST the ports to be opened (docs/administrators.md)";
// If there are other addresses to try, one that does not answer gets this long: a thousand round trips of a network,
// and two repetitions of the call (after 1 s each).
constexpr uint64_t kAttempt_ns = 2 * kSecond_ns;
// The same for a peer that has been connected before (its address is right), and how often a stream tries to return to
// its own network: a call a second costs nothing.
constexpr uint64_t kRepeatedAttempt_ns = kSecond_ns, kFailbackInterval_ns = kSecond_ns;
// Rounds in which every address refused: the peer listened when it published its card, so it has ended. More than one,
// since a router may refuse once in a peer's name.
constexpr int kRefusedRounds = 3;
// How long a host may take to answer a question, when nothing else of it answers: two repetitions of the call.
constexpr uint64_t kHostAnswer_ns = 3 * kSecond_ns;
// Pause before all addresses are tried again, doubled up to a second: short for a peer whose process is starting, and a
// round a second costs a lost peer's host nothing.
constexpr uint64_t kFirstPause_ns = 20 * kMillisecond_ns, kMaxPause_ns = kSecond_ns;
// A process accepts a call within milliseconds, or its kernel does. After so long without one there may be a firewall
// between the hosts: the user is told, long before the time limit.
constexpr uint64_t kWarning_ns = 5 * kSecond_ns;
// Descriptors beside connections: the rank's own, its node's (connect.cc), and the application's.
constexpr uint64_t kSpareDescriptors = 256;

std::string agreement_of(const Tunables& tunables) {
  std::string out;
#define TERN_AGREE(name, initial, minimum, maximum, unit, agree, ...) \
  if (agree) out += #name "=" + std::to_string(tunables.name) + "\n";
  TERN_INTEGER_TUNABLES(TERN_AGREE)
#undef TERN_AGREE
  return out;
}

}  // namespace

std::unique_ptr<TcpPath> TcpPath::create(const TcpOptions& options, const Tunables& tunables,
                                         std::unique_ptr<StreamPort> port, Clock& clock, Sink& sink, Lookup lookup,
                                         Error& error) {
  std::unique_ptr<TcpPath> path(new TcpPath(options, tunables, std::move(port), clock, sink, std::move(lookup)));
  error = path->start(options);
  if (error) path.reset();
  return path;
}

TcpPath::TcpPath(const TcpOptions& options, const Tunables& tunables, std::unique_ptr<StreamPort> port, Clock& clock,
                 Sink& sink, Lookup lookup)
    : table_(*options.peers),
      port_(std::move(port)),
      clock_(clock),
      sink_(sink),
      lookup_(std::move(lookup)),
      log_(options.log),
      identity_{table_.my_name(), options.key, wire::kVersion, agreement_of(tunables), tunables.encrypt != 0, &table_},
      send_buffer_bytes_(options.send_buffer_bytes),
      connect_timeout_ns_(uint64_t(tunables.tcp_connect_timeout_s) * kSecond_ns),
      max_streams_(std::min(size_t(tunables.tcp_lanes), wire::kMaxStreams)),
      stripe_bytes_(size_t(tunables.tcp_stripe_bytes)),
      host_(*port_, tunables),
      sending_{.port = *port_},
      watched_(*port_),
      stripes_(clock),
      link_watch_(*port_) {
  sending_.scratch.reset(new std::byte[TcpOutbound::kScratchBytes]);
  sending_.sealed = tunables.tcp_crc != 0 || identity_.encrypts;
  properties_.name = "tcp";
  properties_.eager_bytes = sending_.eager_bytes = size_t(tunables.tcp_eager_bytes);
  properties_.keep_from_bytes = TcpOutbound::kCopyFirst;
  properties_.announce_from_bytes = properties_.eager_bytes + 1;
}

Error TcpPath::start(const TcpOptions& options) {
  if (sodium_init() < 0) return Error(ErrorClass::other, "libsodium found no source of randomness");
  // A rank may hold a connection to every other; the usual soft limit is 1024 descriptors, the hard one far above.
  port_->reserve(uint64_t(table_.size()) + tcp::Admission::kMaxUnproven + kSpareDescriptors);
  if (Error error = host_.listen(options.addresses, options.this_host_only, table_.size() > 1, watched_)) return error;
  if (log_ && log_->wants(LogLevel::info)) log_->info("tcp: listening on " + host_.listening());
  return {};
}

void TcpPath::shape(int handle) {
  if (send_buffer_bytes_ != 0) port_->set_send_buffer(handle, send_buffer_bytes_);
}

void TcpPath::drop(Setup& setup) {
  TERN_DEBUG_ASSERT(!setup.stream || setup.stream->setup == &setup || !setup.stream->setup);
  admission_.remove(setup);
  if (setup.stream) setup.stream->setup = nullptr;
  watched_.retire(setup);
}

// --- Outgoing calls.

// Learns the peer's addresses, once.
Error TcpPath::look_up(Peer& peer) {
  if (peer.looked_up) return {};
  std::string card;
  if (Error error = lookup_(peer.id, card)) return std::move(error).context("its address is not known");
  if (Error error = host_.ways_to(card, peer.candidates)) return error;
  peer.looked_up = true;
  TERN_DEBUG_ASSERT(!peer.candidates.empty());
  return {};
}

// Begins to call: for the first time, or after a connection was lost.
void TcpPath::contact(Stream& stream) {
  TERN_DEBUG_ASSERT(!stream.link && !stream.setup);
  stream.state = StreamState::calling;
  calls_.set(stream, true);
  stream.give_up_ns = clock_.now_ns() + connect_timeout_ns_;
  stream.warn_ns = stream.generation == 0 && log_ && !warned_ ? clock_.now_ns() + kWarning_ns : kNever_ns;
  stream.next_candidate = 0;
  stream.rounds = stream.hang_ups = 0;
  stream.only_refusals = true;
  stream.refused = stream.unanswered = false;
  if (Error error = look_up(stream.peer)) return doom(stream.peer, error.error_class(), std::string(error.text()));
  stream.candidates = stream.peer.candidates;
  // Stream k prefers the k-th of the networks, in the order of their first addresses.
  std::vector<uint32_t> networks;
  for (auto& candidate : stream.candidates) {
    if (std::find(networks.begin(), networks.end(), candidate.network) == networks.end())
      networks.push_back(candidate.network);
  }
  uint32_t own = networks[stream.index % networks.size()];
  std::stable_partition(stream.candidates.begin(), stream.candidates.end(),
                        [&](auto& candidate) { return candidate.network == own; });
  if (stream.generation == 0) next_attempt(stream);
}

void TcpPath::next_attempt(Stream& stream) {
  if (stream.next_candidate == 0) stream.tried.clear();
  while (stream.next_candidate < stream.candidates.size()) {
    const TcpCandidate& candidate = stream.candidates[stream.next_candidate++];
    if (stream.link && candidate.network != stream.candidates.front().network) break;  // it only wants its own network
    SocketAddress address(candidate.address, candidate.scope);
    stream.proposed = std::max(stream.proposed, stream.generation) + 1;
    auto setup = std::make_unique<Setup>(identity_, table_.name(stream.peer.id), stream.index, stream.proposed,
                                         stream.generation);
    const int handle = port_->connect(address, host_.congestion());
    const std::string interface = host_.interface_of(candidate.network);
    setup->where = address.text() + (interface.empty() ? "" : " over " + interface);
    if (handle < 0) {
      (handle == -ECONNREFUSED ? stream.refused : stream.only_refusals) = handle == -ECONNREFUSED;
      note_failure(stream, setup->where + ": " + errno_text(-handle));
      continue;
    }
    setup->handle = StreamHandle(*port_, handle);
    shape(handle);
    port_->ask_if_alive(handle, true);
    uint64_t now = clock_.now_ns();
    bool last = stream.next_candidate == stream.candidates.size() && stream.generation == 0;
    setup->deadline_ns = last                     ? std::max(stream.give_up_ns, now + kAttempt_ns)
                         : stream.generation == 0 ? now + kAttempt_ns
                                                  : now + kRepeatedAttempt_ns;
    setup->connected = false;
    setup->stream = &stream;
    stream.setup = setup.get();
    watched_.watch(watched_.adopt(std::move(setup)), kReadable | kWritable);
    // On loopback the connection is made already, although the call did not say so: greet at once.
    if (port_->ready(handle, kWritable) == kWritable) on_setup(*stream.setup, kWritable);
    return;
  }
  end_round(stream);
}

// No address has answered: all are tried again later, unless the peer is certainly lost.
void TcpPath::end_round(Stream& stream) {
  uint64_t now = clock_.now_ns();
  stream.next_candidate = 0;
  if (stream.link) {  // it only wanted to return to its own network
    stream.retry_ns = now + kFailbackInterval_ns;
    return;
  }
  ++stream.rounds;
  // An address that accepted calls and now refuses them means that the process has ended, whatever other addresses say;
  // if its connection was closed too, that is certain.
  bool nobody_there = (stream.generation != 0 ? stream.refused : stream.only_refusals) &&
                      (stream.closed || stream.rounds >= kRefusedRounds);
  if (!nobody_there && now >= stream.give_up_ns && stream.unanswered && host_answers(stream)) {
    // Its process is alive, or its kernel would refuse the call; but it does not accept calls: it computes, and
    // others have filled its queue.
    stream.give_up_ns = now + connect_timeout_ns_;
    if (log_) {
      log_->info("tcp: rank " + std::to_string(stream.peer.id) +
                 " takes no connections, but its host answers; waiting on");
    }
  }
  if (nobody_there || now >= stream.give_up_ns + (stream.host.asked() ? kHostAnswer_ns : 0)) {
    std::string trouble = "it cannot be reached: " + stream.peer.trouble;
    if (stream.generation == 0) trouble += kRemedies;
    if (!stream.loss.empty()) trouble = stream.loss + "; called again, " + trouble;
    return doom(stream.peer, int(ErrorClass::proc_aborted), std::move(trouble));
  }
  stream.only_refusals = true;
  stream.refused = stream.unanswered = false;
  stream.retry_ns = now + std::min(kMaxPause_ns, kFirstPause_ns << std::min(stream.rounds, 6));
}

// Asks the peer's host if that was not done yet; true when it has answered.
bool TcpPath::host_answers(Stream& stream) {
  if (stream.host.answered(*port_)) return true;
  if (!stream.host.asked() && !stream.candidates.empty()) {
    const TcpCandidate& candidate = stream.candidates[size_t(stream.rounds) % stream.candidates.size()];
    stream.host.ask(*port_, SocketAddress(candidate.address, candidate.scope));
    stream.give_up_ns = clock_.now_ns();  // a round may have ended long after it: the answer's time starts now
  }
  return false;
}

// The peer's trouble is that of all addresses of this round.
void TcpPath::note_failure(Stream& stream, std::string trouble) {
  TERN_DEBUG_ASSERT(!trouble.empty());
  stream.tried.push_back(std::move(trouble));
  stream.peer.trouble.clear();
  for (const std::string& one : stream.tried) stream.peer.trouble += (stream.peer.trouble.empty() ? "" : "; ") + one;
}

// An outgoing attempt has ended without a connection.
void TcpPath::attempt_failed(Setup& setup, const std::string& trouble) {
  Stream& stream = *setup.stream;
  TERN_DEBUG_ASSERT(stream.setup == &setup);
  note_failure(stream, setup.where + ": " + trouble);
  if (setup.connected) {
    // The peer was alive, perhaps for a long time before it answered: the time limit starts again.
    stream.only_refusals = false;
    if (stream.hang_ups++ == 0 && stream.generation == 0) stream.give_up_ns = clock_.now_ns() + connect_timeout_ns_;
  }
  drop(setup);
  if (stream.link) {
    end_round(stream);
  } else {
    next_attempt(stream);
  }
}

// --- Timers.

void TcpPath::run_timers(uint64_t now) {
  while (Setup* expired = admission_.expired(now)) drop(*expired);
  if (admission_.resume(now)) {
    watched_.each<tcp::Listener>([this](tcp::Listener& listener) { watched_.watch(listener, kReadable); });
  }
  calls_.run(now, [this](Stream& stream) { on_call_due(stream); });
}

// Its attempt, or the pause before the next one, is over.
void TcpPath::on_call_due(Stream& stream) {
  if (clock_.now_ns() >= stream.warn_ns) {
    warn_of_silence(stream);
    if (stream.due_ns() > clock_.now_ns()) return;
  }
  if (stream.setup) {
    stream.only_refusals = false;
    stream.unanswered = true;
    attempt_failed(*stream.setup, "no answer");
  } else {
    stream.retry_ns = kNever_ns;
    next_attempt(stream);
  }
}

// Once for each rank: what blocks one way blocks others. Names the best of the peer's addresses.
void TcpPath::warn_of_silence(Stream& stream) {
  stream.warn_ns = kNever_ns;
  if (std::exchange(warned_, true) || stream.candidates.empty() || (stream.setup && stream.setup->connected)) return;
  const TcpCandidate& candidate = stream.candidates.front();
  const size_t others = stream.candidates.size() - 1;
  const std::string interface = host_.interface_name(candidate.network);
  const uint64_t now = clock_.now_ns(), left_s = stream.give_up_ns > now ? (stream.give_up_ns - now) / kSecond_ns : 0;
  log_->warn("tcp: rank " + std::to_string(stream.peer.id) + " does not answer at " + wire::to_text(candidate.address) +
             (interface.empty() ? "" : " (interface " + interface + ")") +
             (others == 0 ? "" : " nor at its other addresses (" + std::to_string(others) + ")") + " for " +
             std::to_string(kWarning_ns / kSecond_ns) +
             " s. A firewall between the hosts must let ranks connect: TERN_TCP_PORT_FIRST gives them fixed ports, "
             "TERN_TCP_INTERFACES another network. Trying for " +
             std::to_string(left_s) + " s more (TERN_TCP_CONNECT_TIMEOUT_S)");
}

uint64_t TcpPath::next_deadline_ns() const {
  return std::min({wake_ns_, admission_.next_deadline_ns(), calls_.next_deadline_ns()});
}

}  // namespace tern
