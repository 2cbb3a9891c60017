// The router over a peer's streams: which stream carries what.
//
// Small messages, and everything that must stay in order, take the first stream, which uses the fastest
// network. A long message is divided among all streams that are worth it, so that the parts end at the same time
// (stripe_shares.h):
//
//   stream 0:  ... | stripe {message, sizes of the parts} | part 0 | next message ...
//   stream 1:  ... | part 1 |
//   stream 2:  ... | part 2 |
//
// The receiver opens the message at the table, receives the parts side by side (inbound.h), and continues with stream 0
// when all are complete: the layer above sees one message in its place. If a part's network fails, its stream moves to
// another network as always.
//
// Source: the path scheduler of LA-MPI (Majumder 2004, section 2.4), which binds fragments to paths in turn; shares by
// measured speed are Tern's. Thread rule: as Path.
#include <algorithm>

#include "base/assert.h"
#include "fabric/tcp/tcp_path.h"

namespace tern {

using tcp::StreamState;

// Whether there may be several networks to the peer. Within a host there is one, whatever addresses it has: more
// connections only cost (1 MiB one way: 98 us over one, 127 over two).
bool TcpPath::may_stripe(Peer& peer) {
  return max_streams_ > 1 && peer.first().link && !connector_.look_up(peer) &&
         !peer.candidates.front().address.loopback();
}

// Finds the streams that can carry a part now, and calls for missing ones.
size_t TcpPath::open_streams(Peer& peer, Stream** open) {
  if (!may_stripe(peer)) return 1;
  // As many streams as both hosts share networks.
  uint32_t networks[wire::kMaxStreams];
  size_t wanted = 0, count = 0;
  for (const TcpCandidate& candidate : peer.candidates) {
    if (candidate.network == 0 || std::find(networks, networks + wanted, candidate.network) != networks + wanted)
      continue;
    networks[wanted++] = candidate.network;
    if (wanted == max_streams_) break;
  }
  open[count++] = &peer.first();
  for (size_t i = 1; i < wire::kMaxStreams; ++i) {
    if (i >= wanted && !peer.streams[i]) continue;
    Stream& stream = peers_.stream(peer, i);
    if (stream.link) {
      open[count++] = &stream;
    } else if (stream.state == StreamState::fresh && peers_.table().comes_before(peer.id)) {
      connector_.contact(stream);
    }
  }
  return count;
}

// False: there is one stream, and the message takes it like any other. (If several streams exist, the first may get all
// of it: that is a part as well, and is measured.)
bool TcpPath::stripe(Peer& peer, SendOperation& operation) {
  Stream* open[wire::kMaxStreams];
  const size_t count = open_streams(peer, open);
  if (count < 2) return false;
  size_t shares[wire::kMaxStreams] = {};
  stripes_.send(peer, operation, {open, count}, shares, counters());
  // The others first: their bytes travel while the first stream's are copied.
  for (size_t i = count; i-- != 0;) {
    if (shares[i] != 0 || i == 0) traffic_.flush(*open[i]);
  }
  return true;
}

}  // namespace tern
