// The router over a peer's lanes: which lane carries what.
//
// Small messages, and everything that must stay in order, take the first lane, which uses the fastest
// network. A long message is divided among all lanes that are worth it, so that the parts end at the same time
// (stripe_shares.h):
//
//   lane 0:  ... | stripe {message, sizes of the parts} | part 0 | next message ...
//   lane 1:  ... | part 1 |
//   lane 2:  ... | part 2 |
//
// The receiver opens the message at the table, receives the parts side by side (inbound.h), and continues with lane 0
// when all are complete: the layer above sees one message in its place. If a part's network fails, its lane moves to
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
  return max_lanes_ > 1 && peer.first().link && !look_up(peer) && !peer.candidates.front().address.loopback();
}

// Finds the lanes that can carry a part now, and calls for missing ones.
size_t TcpPath::open_lanes(Peer& peer, Stream** open) {
  if (!may_stripe(peer)) return 1;
  // As many lanes as both hosts share networks.
  uint32_t networks[wire::kMaxLanes];
  size_t wanted = 0, count = 0;
  for (const TcpCandidate& candidate : peer.candidates) {
    if (candidate.network == 0 || std::find(networks, networks + wanted, candidate.network) != networks + wanted)
      continue;
    networks[wanted++] = candidate.network;
    if (wanted == max_lanes_) break;
  }
  open[count++] = &peer.first();
  for (size_t i = 1; i < wire::kMaxLanes; ++i) {
    if (i >= wanted && !peer.lanes[i]) continue;
    Stream& lane = stream_at(peer, i);
    if (lane.link) {
      open[count++] = &lane;
    } else if (lane.state == StreamState::fresh && table_.comes_before(peer.id)) {
      contact(lane);
    }
  }
  return count;
}

// False: there is one lane, and the message takes it like any other. (If several lanes exist, the first may get all of
// it: that is a part as well, and is measured.)
bool TcpPath::stripe(Peer& peer, SendOperation& operation) {
  Stream* open[wire::kMaxLanes];
  const size_t count = open_lanes(peer, open);
  if (count < 2) return false;
  size_t shares[wire::kMaxLanes] = {};
  stripes_.send(peer, operation, {open, count}, shares, counters());
  // The others first: their bytes travel while the first lane's are copied.
  for (size_t i = count; i-- != 0;) {
    if (shares[i] != 0 || i == 0) flush(*open[i]);
  }
  return true;
}

}  // namespace tern
