// Creation, the way of the data, and what a poll does.
#include "fabric/tcp/tcp_path.h"

#include <sodium.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace tern {

using tcp::PeerState;
using tcp::StreamState;
using tcp::Watched;

namespace {

std::string agreement_of(const Tunables& tunables) {
  std::string out;
#define TERN_AGREE(name, initial, minimum, maximum, unit, agree, ...) \
  if (agree) out += #name "=" + std::to_string(tunables.name) + "\n";
  TERN_INTEGER_TUNABLES(TERN_AGREE)
#undef TERN_AGREE
  return out;
}

TcpIdentity identity_of(const TcpOptions& options, const Tunables& tunables) {
  return {options.peers->my_name(), options.key,           wire::kVersion,
          agreement_of(tunables),   tunables.encrypt != 0, options.peers};
}

}  // namespace

std::unique_ptr<TcpPath> TcpPath::create(const TcpOptions& options, const Tunables& tunables,
                                         std::unique_ptr<StreamPort> port, Clock& clock, Sink& sink, Lookup lookup,
                                         Error& error) {
  if (sodium_init() < 0) {
    error = Error(ErrorClass::other, "libsodium found no source of randomness");
    return nullptr;
  }
  std::unique_ptr<TcpPath> path(new TcpPath(options, tunables, std::move(port), clock, sink, std::move(lookup)));
  error = path->connector_.listen(options.addresses, options.this_host_only);
  if (error) path.reset();
  return path;
}

TcpPath::TcpPath(const TcpOptions& options, const Tunables& tunables, std::unique_ptr<StreamPort> port, Clock& clock,
                 Sink& sink, Lookup lookup)
    : port_(std::move(port)),
      clock_(clock),
      sink_(sink),
      max_streams_(std::min(size_t(tunables.tcp_lanes), wire::kMaxStreams)),
      stripe_bytes_(size_t(tunables.tcp_stripe_bytes)),
      sending_{.port = *port_},
      peers_(*options.peers, sink, sending_),
      watched_(*port_),
      traffic_(*port_, clock, watched_, sending_, hints_, counters()),
      connector_({identity_of(options, tunables), std::move(lookup), options.send_buffer_bytes,
                  uint64_t(tunables.tcp_connect_timeout_s) * kSecond_ns, options.log},
                 tunables, *port_, clock, watched_, peers_, traffic_),
      stripes_(clock),
      link_watch_(*port_) {
  sending_.scratch.reset(new std::byte[TcpOutbound::kScratchBytes]);
  sending_.sealed = tunables.tcp_crc != 0 || tunables.encrypt != 0;
  properties_.name = "tcp";
  properties_.eager_bytes = sending_.eager_bytes = size_t(tunables.tcp_eager_bytes);
  properties_.keep_from_bytes = TcpOutbound::kCopyFirst;
  properties_.announce_from_bytes = properties_.eager_bytes + 1;
  properties_.part_bytes = kSocketPartBytes;
}

bool TcpPath::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  TERN_DEBUG_ASSERT(bytes <= properties_.eager_bytes || bytes <= kAlwaysWholeBytes);
  Peer& peer = static_cast<Peer&>(lane);
  if (!peer.streams[0]) [[unlikely]]
    return false;
  Stream& stream = peer.first();
  if (stream.link) {
    if (bytes >= stripe_bytes_ && may_stripe(stream.peer)) return false;  // `enqueue` stripes it
    return traffic_.try_send(stream, header, payload, bytes, helped_);
  }
  if (stream.state == StreamState::fresh) connector_.contact(stream);
  return false;
}

void TcpPath::enqueue(SendOperation& operation) {
  Peer& peer = static_cast<Peer&>(*operation.lane);
  if (peer.has_departed()) [[unlikely]] {
    TERN_DEBUG_ASSERT(!operation.linked());
    peer.stranded.push_back(&operation);
    return peers_.doom(peer, peer.error_class, peer.trouble);
  }
  if (peer.state == PeerState::open && operation.payload.remaining() >= stripe_bytes_ && stripe(peer, operation)) {
    return;
  }
  Stream& stream = peer.first();
  const bool nothing_before = stream.outbound.empty() || stream.outbound.held();
  stream.outbound.enqueue(operation);
  if (peer.state == PeerState::lost) {
    peers_.doom(peer, peer.error_class, peer.trouble);
  } else if (stream.state == StreamState::fresh) {
    connector_.contact(stream);
  } else if (stream.link) {
    traffic_.send(stream, operation, nothing_before, helped_);
  }
}

bool TcpPath::withdraw(SendOperation& operation) {
  Peer& peer = static_cast<Peer&>(*operation.lane);
  if (peer.has_departed()) {
    if (!operation.linked() || operation.header_sent) return false;
    SendList::remove(&operation);
    return true;
  }
  Stream& stream = peer.first();
  if (stream.outbound.held()) traffic_.flush(stream);  // it is only held back, and its receiver may be waiting for it
  return stream.outbound.withdraw(operation);
}

int TcpPath::poll() {
  watched_.forget_retired();
  traffic_.begin_poll();
  int handled = 0;
  // Since a connection was left to this poll, only messages were sent: it is still there.
  if (const auto [link, state] = std::exchange(left_, {}); link) [[unlikely]]
    handled = after(*link, state);
  handled += traffic_.read_hot([this](Link& link) { return receive(link); });
  handled += traffic_.retry();
  if (traffic_.look_at_all()) handled += poll_events();
  if (peers_.any_doomed()) handled += lose_doomed();
  return handled + traffic_.complete();
}

int TcpPath::poll_events() {
  StreamPort::Event events[StreamPort::kMaxEvents];
  const int n = port_->events(events);
  int handled = 0;
  for (int i = 0; i < n; ++i) {
    auto& watched = *static_cast<Watched*>(events[i].owner);
    switch (watched.kind) {
      case Watched::Kind::dead: break;  // retired while an earlier event was handled
      case Watched::Kind::listener: connector_.accept_some(static_cast<tcp::Listener&>(watched)); break;
      case Watched::Kind::setup: connector_.advance(static_cast<Setup&>(watched), events[i].what); break;
      case Watched::Kind::interfaces: on_interfaces(static_cast<tcp::Interfaces&>(watched)); break;
      case Watched::Kind::link: {
        auto& link = static_cast<Link&>(watched);
        if (events[i].what & (kReadable | kFailed)) {
          traffic_.heat(link);
          handled += receive(link);
        }
        break;
      }
    }
  }
  if (traffic_.connections() != 0 || connector_.busy()) {
    uint64_t now = clock_.now_ns();
    connector_.run_timers(now);
    if (link_watch_.due(now)) check_links();
  }
  return handled;
}

// Connections only: no call of a peer, no card of one, no end of a connection, no timer.
int TcpPath::poll_shortly() {
  if (left_.link || !traffic_.has_hot()) return -1;
  traffic_.begin_poll();
  const int handled = traffic_.read_hot([this](Link& link) {
    int its = 0;
    if (left_.link) return its;
    const TcpInbound::State state = traffic_.receive(link, its);
    if (state != TcpInbound::State::idle && state != TcpInbound::State::more) left_ = {&link, state};
    return its;
  });
  (void)traffic_.retry();
  return left_.link ? -1 : handled;
}

int TcpPath::receive(Link& link) {
  int handled = 0;
  Stream& stream = *link.stream;
  const TcpInbound::State state = traffic_.receive(link, handled);
  if (stream.link != &link) return handled;  // the sink has sent, and found the connection broken
  return handled + after(link, state);
}

// What a connection's bytes have come to.
int TcpPath::after(Link& link, TcpInbound::State state) {
  Peer& peer = link.stream->peer;
  int handled = 0;
  switch (state) {
    case TcpInbound::State::idle:
    case TcpInbound::State::more:
    case TcpInbound::State::waits: break;
    case TcpInbound::State::ended:
    case TcpInbound::State::broken:
    case TcpInbound::State::unsound:
    case TcpInbound::State::wrong: handled += link_ended(link, state); break;
  }
  if (peer.streams[1]) handled += receive_waiting(peer);
  return handled;
}

// What one stream has received may be what another has waited for.
int TcpPath::receive_waiting(Peer& peer) {
  int handled = 0;
  for (auto& stream : peer.streams) {
    if (!stream || !stream->link || !stream->inbound.can_go_on()) continue;
    handled += receive(*stream->link);
    if (stream && stream->link) traffic_.watch(*stream);
    break;  // that call has checked all of them again
  }
  return handled;
}

bool TcpPath::has_unsent() const {
  bool unsent = false;
  peers_.each_stream([&](Stream& stream) {
    // The calling thread may sleep for long: a peer that does the same waits for our acknowledgement, which the
    // kernel would delay.
    if (stream.link) port_->acknowledge_at_once(stream.link->handle.get());
    unsent = stream.outbound.unsure() || unsent || !stream.outbound.empty() || stream.outbound.owed() != 0;
  });
  return unsent;
}

void TcpPath::tell_on_the_way(std::vector<InTransit>& all) {
  peers_.each([&](Peer& peer) {
    InTransit about{peer.id, "tcp"};
    for (const auto& stream : peer.streams) {
      if (!stream) continue;
      const uint64_t bytes = stream->outbound.backlog();
      const bool arriving = stream->inbound.incomplete();
      StreamPort::Silence silence;
      if ((bytes != 0 || arriving) && stream->link && port_->silence(stream->link->handle.get(), silence))
        about.silent_ms = std::min<uint64_t>(about.silent_ms, silence.silent_ms);
      about.bytes += bytes;
      about.arriving |= arriving;
    }
    if (about.bytes != 0 || about.arriving) all.push_back(about);
  });
}

}  // namespace tern
