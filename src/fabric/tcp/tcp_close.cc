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

// Done-functions may send to the same peer again; that fails in the next poll.
int TcpPath::lose_doomed() {
  int handled = 0;
  peers_.visit_doomed([&](Peer& peer) {
    bool calling = false;
    for (auto& stream : peer.streams) calling = calling || (stream && stream->state == StreamState::calling);
    // Meanwhile the peer may have called this rank.
    if (peer.state == PeerState::open && peer.connected() && !calling && !peer.given_up) return;
    handled += lose(peer);
  });
  return handled;
}

void TcpPath::give_up(Lane& lane) {
  auto& peer = static_cast<Peer&>(lane);
  peer.given_up = true;
  TERN_DEBUG_ASSERT(&peers_.at(peer.id) == &peer);
  peers_.doom(peer, int(ErrorClass::proc_aborted), "given up for another path");
}

// The streams restart at their first byte, and so do the peer's.
bool TcpPath::reopen(Lane& lane, uint32_t) {
  auto& peer = static_cast<Peer&>(lane);
  if (peer.state != PeerState::lost || peer.doomed) return false;
  drop_streams(peer);
  peers_.reopen(peer);
  return true;
}

// Of a peer that is lost, or has left and been treated as lost by `lose`. Nothing refers to its streams any more.
void TcpPath::drop_streams(Peer& peer) {
  for (auto& stream : peer.streams) {
    if (!stream) continue;
    TERN_DEBUG_ASSERT(!stream->setup);
    traffic_.forget(*stream);
    stream.reset();
  }
  peer.receiving.assembly = {};
}

int TcpPath::lose(Peer& peer) {
  const bool departed = peer.state == PeerState::departed;
  if (!departed || peer.given_up) peer.state = PeerState::lost;
  int handled = 0;
  for (size_t i = wire::kMaxStreams; i-- != 0;) {  // the first last: it knows the message of which others have parts
    Stream* stream = peer.streams[i].get();
    if (!stream) continue;
    connector_.stop(*stream);
    if (stream->link) traffic_.detach(*stream);
    stream->state = StreamState::ended;
    TERN_DEBUG_ASSERT(!stream->link);
    (void)stream->inbound.receive(-1, handled);  // what had arrived before the loss is still valid
    stream->inbound.abandon(peer.reason());
  }
  SendList failed;
  peer.surrender(failed);
  while (SendOperation* operation = failed.pop_front()) {
    ++handled;
    operation->done(*operation, peer.reason());
  }
  if ((!departed || peer.given_up) && !peer.announced) {
    peer.announced = true;
    TERN_DEBUG_ASSERT(peer.state != PeerState::open);
    ++handled;
    sink_.on_peer_lost(peer, peer.reason());
  }
  return handled;
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
      traffic_.detach(stream);
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
  stream.call.note_closed(how == TcpInbound::State::ended || said == ECONNRESET || said == EPIPE);
  counters().tcp_unsound += how == TcpInbound::State::unsound;
  connector_.call_again(stream,
                        prefix + (how == TcpInbound::State::unsound ? "what arrived was damaged on the way"
                                  : said != 0                       ? errno_text(said)
                                              : "it was closed without a goodbye, so its process was killed or "
                                                "has crashed"),
                        false);
  return 0;
}

// Checks for connections whose network is lost.
void TcpPath::check_links() {
  const bool several = connector_.host().several_networks();
  std::vector<Stream*> lost;
  std::vector<Setup*> failed;
  watched_.each<Link>([&](Link& link) {
    if (link.stream->outbound.unsure() && link_watch_.stalled(link, several)) lost.push_back(link.stream);
  });
  watched_.each<Setup>([&](Setup& setup) {
    if (setup.stream && setup.connected && link_watch_.stalled(setup, several)) failed.push_back(&setup);
  });
  for (Stream* stream : lost)
    connector_.call_again(*stream, "the connection to " + stream->link->where + " is lost: no answer any more", true);
  for (Setup* setup : failed) {
    if (setup->kind != tcp::Watched::Kind::setup) continue;
    connector_.advance(*setup, 0);  // an answer that has come meanwhile is valid
    if (setup->kind == tcp::Watched::Kind::setup) connector_.attempt_failed(*setup, "no answer any more");
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
    if (setup.stream && gone(connector_.host().network(setup.handle.get()))) failed.push_back(&setup);
  });
  for (Stream* stream : lost) {
    if (connector_.look_up(stream->peer)) continue;
    const auto& ways = stream->peer.candidates;
    if (std::all_of(ways.begin(), ways.end(), [&](auto& candidate) { return gone(candidate.network); })) continue;
    if (stream->link)
      connector_.call_again(*stream,
                            "the connection to " + stream->link->where + " is lost: its interface has gone down", true);
  }
  for (Setup* setup : failed) {
    if (setup->kind == tcp::Watched::Kind::setup) connector_.attempt_failed(*setup, "its interface has gone down");
  }
}

void TcpPath::break_connection(PeerId id) {
  for (auto& stream : peers_.at(id).streams) {
    if (stream && stream->link) port_->shutdown(stream->link->handle.get(), true);
  }
}

void TcpPath::abort() {
  peers_.each_stream([this](Stream& stream) {
    if (stream.link) traffic_.detach(stream);
    connector_.stop(stream);
  });
  watched_.retire_all();
}

TcpPath::~TcpPath() {
  try {
    std::vector<Stream*> open;
    peers_.each_stream([&](Stream& stream) {
      if (stream.link) open.push_back(&stream);
    });
    tcp::close_in_order(*port_, clock_, sending_.scratch.get(), open);
  } catch (const std::bad_alloc&) {
    // Connections just end. In MPI_Finalize nothing is lost: all ranks have reached its barrier.
  }
  // Operations that are still here belong to requests that are being destroyed too; no call waits for them.
  SendList forgotten;
  peers_.each([&](Peer& peer) { peer.surrender(forgotten); });
  peers_.each_stream([](Stream& stream) {
    if (stream.linked()) stream.unlink();
  });
  while (forgotten.pop_front()) {
  }
  while (sending_.finished.pop_front()) {
  }
}

}  // namespace tern
