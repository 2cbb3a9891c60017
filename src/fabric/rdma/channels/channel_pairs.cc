// What the ends of a connected queue pair of the pool (pair_pool.h) tell each other. When another peer needs one and
// the pool is full, both ends give up the queue pair of the peer that took its pair longest ago:
//
//   one side   neither stream uses it, nothing is outstanding  -- retire -->   the other
//              makes its end idle, for the next peer          <-- retired --   the same holds: makes its end idle, too
//
// An end may be reset only after the other one has all its answers, else the other end's requests are repeated until
// the connection breaks. So each side states that for itself, and only then the ends are reset. A side that is about to
// use the queue pair answers `keep`. If both ask at the same time, both have stated it.
//
// A side whose messages go by datagrams needs a queue pair for its transfers. Those cannot be refused, so they get one
// beyond the pool's size if need be, while an unused one is asked for:
//
//   one side  makes its end  -- join -->  the other: makes its end, connects it
//             connects       <-- joined --
//             posts transfers
#include <bit>
#include <string>
#include <utility>

#include "base/assert.h"
#include "fabric/rdma/channels/channel_switches.h"
#include "fabric/rdma/channels/send_channels.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {

using Step = wire::RdmaChange::Step;

bool ChannelSwitches::sends_connected(const RdmaPeer& peer) const {
  return peer.switching.active && pairs_.sends_by_pair(peer);
}

void ChannelSwitches::end_of_unit(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  its.active = peer.stream.received != its.seen_received || peer.stream.sent != its.seen_sent;
  its.seen_received = peer.stream.received;
  its.seen_sent = peer.stream.sent;
}

uint32_t ChannelSwitches::update_share() {
  adapter_.share.set_claimed(pairs_.in_use());
  adapter_.share.set_rings(uint32_t(polled_.size()));
  return pairs_.most_in_use();
}

// False: not now, but perhaps when another one has been given up.
bool ChannelSwitches::take_pair(RdmaPeer& peer) {
  const PairPool::Answer answer = pairs_.take(peer);
  if (answer == PairPool::Answer::full) retire_one();
  return answer == PairPool::Answer::yes;
}

void ChannelSwitches::retire_one() {
  RdmaPeer* peer = pairs_.unused();
  if (!peer) return;
  TERN_DEBUG_ASSERT(!pairs_.used(*peer) && peer->outstanding == 0);
  peer->switching.retiring = true;
  wire::RdmaChange change;
  change.step = Step::retire;
  tell(*peer, change);
}

// Does not wait until nothing is outstanding: with a peer that takes no more receives that might last for ever.
void ChannelSwitches::on_retirement(RdmaPeer& peer, Step step) {
  OfPeer& its = peer.switching;
  if (step == Step::retire && !its.retiring) {
    wire::RdmaChange answer;
    answer.step = pairs_.used(peer) || peer.outstanding != 0 ? Step::keep : Step::retired;
    if (answer.step == Step::retired) pairs_.give_up(peer);
    tell(peer, answer);
  } else if (its.retiring) {
    its.retiring = false;
    if (step != Step::keep) pairs_.give_up(peer);  // retire: both have asked
  }
}

// --- For transfers.

Channel* ChannelSwitches::transfer_channel(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  for (Channel* channel : {peer.stream.channel, peer.stream.base.get()}) {
    if (channel->traits().carries_transfers) return channel;
  }
  if (its.joined && !its.retiring) return its.connected.get();
  if (!its.joining && !its.retiring) join(peer);
  return nullptr;
}

void ChannelSwitches::join(RdmaPeer& peer) {
  if (!peer.connection.pair && pairs_.full()) retire_one();
  if (Error error = pairs_.make(peer)) {
    peers_.break_peer(peer, "no queue pair for transfers: " + std::string(error.text()));
    return;
  }
  TERN_DEBUG_ASSERT(!peer.switching.joining && peer.connection.pair);
  peer.switching.joining = true;
  wire::RdmaChange change;
  change.step = Step::join;
  change.has_pair = true;
  change.pair = std::bit_cast<wire::RdmaAddress>(peer.connection.pair->address());
  tell(peer, change);
}

void ChannelSwitches::on_join(RdmaPeer& peer, const wire::RdmaChange& change) {
  wire::RdmaChange answer = change;
  answer.step = Step::unable;
  if (base_ != ChannelKind::rc && change.has_pair && !pairs_.make(peer) && !pairs_.connect(peer, change.pair)) {
    answer.step = Step::joined;
    answer.pair = std::bit_cast<wire::RdmaAddress>(peer.connection.pair->address());
  }
  tell(peer, answer);
}

void ChannelSwitches::on_joined(RdmaPeer& peer, const wire::RdmaChange& change) {
  OfPeer& its = peer.switching;
  if (!std::exchange(its.joining, false)) return;
  if (change.step == Step::unable || pairs_.connect(peer, change.pair)) {
    peers_.break_peer(peer, "it has no queue pair for transfers");
    return;
  }
  pairs_.channel(peer);
  its.joined = true;
  TERN_DEBUG_ASSERT(peer.connection.pair && its.connected);
  adapter_.block(peer);  // transfers wait
}

}  // namespace tern
