// End of connections: a peer's orderly goodbye, its loss, and this rank's own end.
#include <algorithm>
#include <cerrno>
#include <new>

#include "base/assert.h"
#include "fabric/tcp/closing.h"
#include "fabric/tcp/tcp_path.h"

namespace tern {

using tcp::PeerState;
using tcp::StreamState;

namespace {

// How long the higher rank leaves the call to the lower one after both have seen their connection break: longer than a
// round trip and a lower rank's absence of a time slice (some ms), shorter than a user notices.
constexpr uint64_t kReconnectTieBreak_ns = 20'000'000;

}  // namespace

// For places that must not call the sink: the peer is lost in the next poll. If it is lost already, what is queued for
// it fails in that poll.
void TcpPath::doom(Peer& peer, int error_class, std::string trouble) {
  if (peer.trouble != trouble) peer.trouble = std::move(trouble);
  peer.error_class = error_class;
  if (peer.doomed) return;
  peer.doomed = true;
  TERN_DEBUG_ASSERT(std::find(doomed_.begin(), doomed_.end(), &peer) == doomed_.end());
  doomed_.push_back(&peer);
}

int TcpPath::lose_doomed() {
  // Done-functions may send to the same peer again; that fails in the next poll.
  std::vector<Peer*> now;
  now.swap(doomed_);
  int handled = 0;
  for (Peer* peer : now) {
    TERN_DEBUG_ASSERT(peer->doomed);
    peer->doomed = false;
    bool calling = false;
    for (auto& stream : peer->streams) calling = calling || (stream && stream->state == StreamState::calling);
    // Meanwhile the peer may have called this rank.
    if (peer->state == PeerState::open && peer->connected() && !calling && !peer->given_up) continue;
    handled += lose(*peer);
  }
  return handled;
}

void TcpPath::give_up(Lane& lane) {
  auto& peer = static_cast<Peer&>(lane);
  peer.given_up = true;
  TERN_DEBUG_ASSERT(&peer_at(peer.id) == &peer);
  doom(peer, int(ErrorClass::proc_aborted), "given up for another path");
}

// The streams restart at their first byte, and so do the peer's.
bool TcpPath::reopen(Lane& lane, uint32_t) {
  auto& peer = static_cast<Peer&>(lane);
  if (peer.state != PeerState::lost || peer.doomed) return false;
  drop_streams(peer);
  peer.streams[0] = std::make_unique<Stream>(peer, 0, sending_);
  TERN_DEBUG_ASSERT(peer.state == PeerState::lost && !peer.first().link);
  peer.state = PeerState::open;
  peer.announced = peer.given_up = false;
  peer.trouble.clear();
  return true;
}

// Of a peer that is lost, or has left and been treated as lost by `lose`. Nothing refers to its streams any more.
void TcpPath::drop_streams(Peer& peer) {
  for (auto& stream : peer.streams) {
    if (!stream) continue;
    bursts_.forget(*stream);
    TERN_DEBUG_ASSERT(!stream->link && !stream->setup);
    if (stream->linked()) stream->unlink();
    stream.reset();
  }
  peer.receiving.assembly = {};
}

int TcpPath::fail_operations(Peer& peer) {
  SendList failed;
  for (auto& stream : peer.streams) {
    if (stream) stream->outbound.surrender(failed);
  }
  while (SendOperation* operation = peer.stranded.pop_front()) failed.push_back(operation);
  int handled = 0;
  while (SendOperation* operation = failed.pop_front()) {
    ++handled;
    operation->done(*operation, peer.reason());
  }
  return handled;
}

int TcpPath::lose(Peer& peer) {
  const bool departed = peer.state == PeerState::departed;
  if (!departed || peer.given_up) peer.state = PeerState::lost;
  int handled = 0;
  for (size_t i = wire::kMaxStreams; i-- != 0;) {  // the first last: it knows the message of which others have parts
    Stream* stream = peer.streams[i].get();
    if (!stream) continue;
    if (stream->setup) drop(*stream->setup);
    if (stream->link) give_up_link(*stream);
    calls_.set(*stream, false);
    stream->state = StreamState::ended;
    TERN_DEBUG_ASSERT(!stream->link);
    (void)stream->inbound.receive(-1, handled);  // what had arrived before the loss is still valid
    stream->inbound.abandon(peer.reason());
  }
  handled += fail_operations(peer);
  if ((!departed || peer.given_up) && !peer.announced) {
    peer.announced = true;
    TERN_DEBUG_ASSERT(peer.state != PeerState::open);
    ++handled;
    sink_.on_peer_lost(peer, peer.reason());
  }
  return handled;
}

// From this connection only what its socket holds is still read, and that is kept. (After the shutdown the
// kernel answers further data with a reset instead of acknowledging it, so the peer knows what this rank does not
// have.)
void TcpPath::give_up_link(Stream& stream) {
  Link& link = *stream.link;
  TERN_DEBUG_ASSERT(link.stream == &stream && links_ != 0);
  port_->shutdown(link.handle.get(), true);
  stream.inbound.drain(link.handle.get());
  stream.outbound.detach();
  stream.link = nullptr;
  if (stream.linked()) stream.unlink();
  hot_.cool(link);
  counters().tcp_connections = --links_;
  watched_.retire(link);
}

// A connection has come to its end, in order or not.
int TcpPath::link_ended(Link& link, TcpInbound::State how) {
  Stream& stream = *link.stream;
  Peer& peer = stream.peer;
  const std::string prefix = "the connection to " + link.where + " is lost: ";
  if (how == TcpInbound::State::wrong) {
    peer.error_class = int(ErrorClass::proc_aborted);
    peer.trouble = prefix + "it sent what is no message";
    return lose(peer);
  }
  if (how == TcpInbound::State::ended && stream.inbound.departed()) {
    if (stream.index != 0) {  // the peer is about to say goodbye on the first stream too
      give_up_link(stream);
      stream.state = StreamState::ended;
      return 0;
    }
    peer.error_class = int(ErrorClass::proc_aborted);
    peer.trouble = "it has ended its part of the job and receives no more";
    peer.state = PeerState::departed;
    const int handled = lose(peer);
    if (peer.state != PeerState::departed) return handled;  // lost for another path, which may have reopened it
    // A job that spawns many others, one after the other, has many such peers.
    drop_streams(peer);
    peer.candidates = {};
    peer.looked_up = false;
    TERN_DEBUG_ASSERT(peer.state == PeerState::departed);
    return handled;
  }
  int said = stream.inbound.error() != 0 ? stream.inbound.error() : stream.outbound.error();
  stream.closed = how == TcpInbound::State::ended || said == ECONNRESET || said == EPIPE;
  counters().tcp_unsound += how == TcpInbound::State::unsound;
  link_broken(stream,
              prefix + (how == TcpInbound::State::unsound ? "what arrived was damaged on the way"
                        : said != 0                       ? errno_text(said)
                                    : "it was closed without a goodbye, so its process was killed or "
                                      "has crashed"),
              false);
  return 0;
}

// The stream continues over another connection (no sink is called here). The lower rank calls first: two calls
// at a time would hinder each other.
void TcpPath::link_broken(Stream& stream, std::string why, bool network_is_bad) {
  const uint32_t network = stream.network;
  if (stream.setup) drop(*stream.setup);
  if (stream.link) give_up_link(stream);
  stream.loss = std::move(why);
  TERN_DEBUG_ASSERT(!stream.link && !stream.setup);
  contact(stream);
  if (stream.peer.doomed) return;
  if (network_is_bad) {
    auto other = std::find_if(stream.candidates.begin(), stream.candidates.end(),
                              [&](auto& candidate) { return candidate.network != network; });
    if (other != stream.candidates.end()) stream.next_candidate = size_t(other - stream.candidates.begin());
  }
  stream.retry_ns = clock_.now_ns() + (table_.comes_before(stream.peer.id) ? 0 : kReconnectTieBreak_ns);
}

// Checks for connections whose network is lost.
void TcpPath::check_links() {
  const bool several = host_.several_networks();
  std::vector<Stream*> lost;
  std::vector<Setup*> failed;
  watched_.each<Link>([&](Link& link) {
    if (link.stream->outbound.unsure() && link_watch_.stalled(link, several)) lost.push_back(link.stream);
  });
  watched_.each<Setup>([&](Setup& setup) {
    if (setup.stream && setup.connected && link_watch_.stalled(setup, several)) failed.push_back(&setup);
  });
  for (Stream* stream : lost)
    link_broken(*stream, "the connection to " + stream->link->where + " is lost: no answer any more", true);
  for (Setup* setup : failed) {
    if (setup->kind != tcp::Watched::Kind::setup) continue;
    on_setup(*setup, 0);  // an answer that has come meanwhile is valid
    if (setup->kind == tcp::Watched::Kind::setup) attempt_failed(*setup, "no answer any more");
  }
}

// One of this host's interfaces has gone down: streams over it move to another network at once, if there is one. (If
// not, they wait: the interface may come back, and the connection with it.) If it was the peer's interface, the peer
// calls.
void TcpPath::on_interfaces(tcp::Interfaces& watch) {
  std::vector<uint32_t> down;
  port_->read_interfaces(watch.handle.get(), down);
  if (down.empty()) return;
  auto gone = [&](uint32_t network) {
    return network != 0 && std::find(down.begin(), down.end(), network) != down.end();
  };
  std::vector<Stream*> lost;
  std::vector<Setup*> failed;
  watched_.each<Link>([&](Link& link) {
    if (gone(link.stream->network)) lost.push_back(link.stream);
  });
  watched_.each<Setup>([&](Setup& setup) {
    if (setup.stream && gone(host_.network(setup.handle.get()))) failed.push_back(&setup);
  });
  for (Stream* stream : lost) {
    if (look_up(stream->peer)) continue;
    const auto& ways = stream->peer.candidates;
    if (std::all_of(ways.begin(), ways.end(), [&](auto& candidate) { return gone(candidate.network); })) continue;
    if (stream->link)
      link_broken(*stream, "the connection to " + stream->link->where + " is lost: its interface has gone down", true);
  }
  for (Setup* setup : failed) {
    if (setup->kind == tcp::Watched::Kind::setup) attempt_failed(*setup, "its interface has gone down");
  }
}

void TcpPath::break_connection(PeerId id) {
  for (auto& stream : peer_at(id).streams) {
    if (stream && stream->link) port_->shutdown(stream->link->handle.get(), true);
  }
}

void TcpPath::abort() {
  for (auto& peer : peers_) {
    if (!peer) continue;
    for (auto& stream : peer->streams) {
      if (!stream) continue;
      if (stream->link) give_up_link(*stream);
      if (stream->setup) drop(*stream->setup);
    }
  }
  watched_.retire_all();
}

TcpPath::~TcpPath() {
  try {
    std::vector<Stream*> open;
    for (auto& peer : peers_) {
      if (!peer) continue;
      for (auto& stream : peer->streams) {
        if (stream && stream->link) open.push_back(stream.get());
      }
    }
    tcp::close_in_order(*port_, clock_, sending_.scratch.get(), open);
  } catch (const std::bad_alloc&) {
    // Connections just end. In MPI_Finalize nothing is lost: all ranks have reached its barrier.
  }
  // Operations that are still here belong to requests that are being destroyed too; no call waits for them.
  SendList forgotten;
  for (auto& peer : peers_) {
    if (!peer) continue;
    for (auto& stream : peer->streams) {
      if (!stream) continue;
      if (stream->linked()) stream->unlink();
      stream->outbound.surrender(forgotten);
    }
    while (SendOperation* operation = peer->stranded.pop_front()) forgotten.push_back(operation);
  }
  while (forgotten.pop_front()) {
  }
  while (sending_.finished.pop_front()) {
  }
}

}  // namespace tern
