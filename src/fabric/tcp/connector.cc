#include "fabric/tcp/connector.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"

namespace tern::tcp {
namespace {

constexpr const char* kRemedies =
    ". Is a firewall between the hosts, or does none of these networks lead there? TERN_TCP_INTERFACES chooses the "
    "networks, TERN_TCP_PORT_FIRST the ports to be opened (docs/administrators.md)";
// How often a stream tries to return to its own network: a call a second costs nothing.
constexpr uint64_t kFailbackInterval_ns = kSecond_ns;
// How long the higher rank leaves the call to the lower one after both have seen their connection break: longer than a
// round trip and a lower rank's absence of a time slice (some ms), shorter than a user notices.
constexpr uint64_t kReconnectTieBreak_ns = 20'000'000;
// A process accepts a call within milliseconds, or its kernel does. After so long without one there may be a firewall
// between the hosts: the user is told, long before the time limit.
constexpr uint64_t kWarning_ns = 5 * kSecond_ns;
// Descriptors beside connections: the rank's own, its node's (connect.cc), and the application's.
constexpr uint64_t kSpareDescriptors = 256;

}  // namespace

Error Connector::listen(const std::vector<LocalAddress>& addresses, bool this_host_only) {
  // A rank may hold a connection to every other; the usual soft limit is 1024 descriptors, the hard one far above.
  const size_t ranks = peers_.table().size();
  port_.reserve(uint64_t(ranks) + Admission::kMaxUnproven + kSpareDescriptors);
  if (Error error = host_.listen(addresses, this_host_only, ranks > 1, watched_)) return error;
  if (options_.log && options_.log->wants(LogLevel::info)) options_.log->info("tcp: listening on " + host_.listening());
  return {};
}

void Connector::shape(int handle) {
  if (options_.send_buffer_bytes != 0) port_.set_send_buffer(handle, options_.send_buffer_bytes);
}

void Connector::drop(Setup& setup) {
  TERN_DEBUG_ASSERT(!setup.stream || setup.stream->setup == &setup || !setup.stream->setup);
  admission_.remove(setup);
  if (setup.stream) setup.stream->setup = nullptr;
  watched_.retire(setup);
}

// --- Outgoing calls.

// Learns the peer's addresses, once.
Error Connector::look_up(Peer& peer) {
  if (peer.looked_up) return {};
  std::string card;
  if (Error error = options_.lookup(peer.id, card)) return std::move(error).context("its address is not known");
  if (Error error = host_.ways_to(card, peer.candidates)) return error;
  peer.looked_up = true;
  TERN_DEBUG_ASSERT(!peer.candidates.empty());
  return {};
}

void Connector::contact(Stream& stream) {
  TERN_DEBUG_ASSERT(!stream.link && !stream.setup);
  const uint64_t now = clock_.now_ns();
  const bool first = stream.generation == 0;
  stream.state = StreamState::calling;
  calls_.set(stream, true);
  stream.warn_ns = first && options_.log && !warned_ ? now + kWarning_ns : kNever_ns;
  if (Error error = look_up(stream.peer))
    return peers_.doom(stream.peer, error.error_class(), std::string(error.text()));
  stream.call.begin(stream.peer.candidates, stream.index, now, options_.silence_limit_ns);
  if (first) next_attempt(stream);
}

// The lower rank calls first: two calls at a time would hinder each other.
void Connector::call_again(Stream& stream, std::string why, bool network_is_bad) {
  const uint32_t network = stream.network;
  if (stream.setup) drop(*stream.setup);
  if (stream.link) traffic_.detach(stream);
  stream.loss = std::move(why);
  TERN_DEBUG_ASSERT(!stream.link && !stream.setup);
  contact(stream);
  if (stream.peer.doomed) return;
  if (network_is_bad) stream.call.avoid(network);
  stream.retry_ns = clock_.now_ns() + (peers_.table().comes_before(stream.peer.id) ? 0 : kReconnectTieBreak_ns);
}

void Connector::stop(Stream& stream) {
  if (stream.setup) drop(*stream.setup);
  calls_.set(stream, false);
}

void Connector::next_attempt(Stream& stream) {
  // (With a connection it only wants to return to its own network.)
  while (const TcpCandidate* way = stream.call.next(stream.link != nullptr)) {
    SocketAddress address(way->address, way->scope);
    stream.proposed = std::max(stream.proposed, stream.generation) + 1;
    auto setup = std::make_unique<Setup>(options_.identity, peers_.table().name(stream.peer.id), stream.index,
                                         stream.proposed, stream.generation);
    const int handle = port_.connect(address, host_.congestion());
    const std::string interface = host_.interface_name(way->network);
    setup->where = address.text() + (interface.empty() ? "" : " over " + interface);
    if (handle >= 0) {
      setup->handle = StreamHandle(port_, handle);
      return begin_attempt(stream, std::move(setup));
    }
    const auto why = handle == -ECONNREFUSED ? CallPolicy::Failure::refused : CallPolicy::Failure::unreachable;
    note_failure(stream, setup->where + ": " + errno_text(-handle), why, false);
  }
  end_round(stream);
}

void Connector::begin_attempt(Stream& stream, std::unique_ptr<Setup> setup) {
  const int handle = setup->handle.get();
  shape(handle);
  port_.ask_if_alive(handle, true);
  setup->deadline_ns = stream.call.attempt_ends_ns(clock_.now_ns());
  setup->connected = false;
  setup->stream = &stream;
  stream.setup = setup.get();
  watched_.watch(watched_.adopt(std::move(setup)), kReadable | kWritable);
  // On loopback the connection is made already, although the call did not say so: greet at once.
  if (port_.ready(handle, kWritable) == kWritable) advance(*stream.setup, kWritable);
}

// No address has answered.
void Connector::end_round(Stream& stream) {
  const uint64_t now = clock_.now_ns();
  if (stream.link) {  // it only wanted to return to its own network
    stream.call.rewind();
    stream.retry_ns = now + kFailbackInterval_ns;
    return;
  }
  switch (stream.call.end_round(port_, now)) {
    case CallPolicy::Outcome::lost: {
      std::string trouble = "it cannot be reached: " + stream.peer.trouble;
      if (stream.generation == 0) trouble += kRemedies;
      if (!stream.loss.empty()) trouble = stream.loss + "; called again, " + trouble;
      return peers_.doom(stream.peer, int(ErrorClass::proc_aborted), std::move(trouble));
    }
    case CallPolicy::Outcome::host_lives:
      if (options_.log) {
        options_.log->info("tcp: rank " + std::to_string(stream.peer.id) +
                           " takes no connections, but its host answers; waiting on");
      }
      break;
    case CallPolicy::Outcome::pause: break;
  }
  stream.retry_ns = now + stream.call.pause_ns();
}

void Connector::note_failure(Stream& stream, std::string what, CallPolicy::Failure why, bool connected) {
  stream.call.failed(std::move(what), why, connected, clock_.now_ns());
  stream.peer.trouble = stream.call.troubles();
}

void Connector::attempt_failed(Setup& setup, const std::string& trouble, CallPolicy::Failure why) {
  Stream& stream = *setup.stream;
  TERN_DEBUG_ASSERT(stream.setup == &setup);
  note_failure(stream, setup.where + ": " + trouble, why, setup.connected);
  drop(setup);
  if (stream.link) {
    end_round(stream);
  } else {
    next_attempt(stream);
  }
}

// --- Timers.

void Connector::run_timers(uint64_t now) {
  while (Setup* expired = admission_.expired(now)) drop(*expired);
  if (admission_.resume(now)) {
    watched_.each<Listener>([this](Listener& listener) { watched_.watch(listener, kReadable); });
  }
  calls_.run(now, [this](Stream& stream) { on_call_due(stream); });
}

// Its attempt, or the pause before the next one, is over.
void Connector::on_call_due(Stream& stream) {
  if (clock_.now_ns() >= stream.warn_ns) {
    warn_of_silence(stream);
    if (stream.due_ns() > clock_.now_ns()) return;
  }
  if (stream.setup) {
    attempt_failed(*stream.setup, "no answer", CallPolicy::Failure::unanswered);
  } else {
    stream.retry_ns = kNever_ns;
    next_attempt(stream);
  }
}

// Once for each rank: what blocks one way blocks others. Names the best of the peer's addresses.
void Connector::warn_of_silence(Stream& stream) {
  stream.warn_ns = kNever_ns;
  if (std::exchange(warned_, true) || stream.call.ways().empty() || (stream.setup && stream.setup->connected)) return;
  const TcpCandidate& candidate = stream.call.ways().front();
  const size_t others = stream.call.ways().size() - 1;
  const std::string interface = host_.interface_name(candidate.network);
  const uint64_t now = clock_.now_ns(), limit = stream.call.give_up_ns();
  const uint64_t left_s = limit > now ? (limit - now) / kSecond_ns : 0;
  options_.log->warn(
      "tcp: rank " + std::to_string(stream.peer.id) + " does not answer at " + wire::to_text(candidate.address) +
      (interface.empty() ? "" : " (interface " + interface + ")") +
      (others == 0 ? "" : " nor at its other addresses (" + std::to_string(others) + ")") + " for " +
      std::to_string(kWarning_ns / kSecond_ns) +
      " s. A firewall between the hosts must let ranks connect: TERN_TCP_PORT_FIRST gives them fixed ports, "
      "TERN_TCP_INTERFACES another network. Trying for " +
      std::to_string(left_s) + " s more (TERN_TCP_CONNECT_TIMEOUT_S)");
}

}  // namespace tern::tcp
