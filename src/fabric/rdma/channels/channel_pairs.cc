// Connected queue pairs of channels whose base needs none: a pool of at most TERN_RDMA_RC_POOL, since making one takes
// milliseconds (Takagi et al. 2015, section 3.4). A peer keeps its queue pair while no stream uses it. When another
// peer needs one and the pool is full, both ends give up the queue pair of the peer that took its pair longest
// ago:
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
#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/assert.h"
#include "fabric/rdma/channels/channel_switches.h"
#include "fabric/rdma/channels/send_channels.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {

using Step = wire::RdmaChange::Step;

bool ChannelSwitches::sends_by_pair(const RdmaPeer& peer) const {
  const OfPeer& its = peer.switching;
  return (its.out && needs_pair(its.out->traits().kind)) || (its.leaving && needs_pair(its.out_next));
}

bool ChannelSwitches::pair_used(const RdmaPeer& peer) const {
  const OfPeer& its = peer.switching;
  const bool transfers = its.joining || (its.joined && !peer.transfers.waiting.empty());
  return needs_pair(its.kind) || needs_pair(its.next_kind) || sends_by_pair(peer) || transfers;
}

bool ChannelSwitches::sends_connected(const RdmaPeer& peer) const {
  return peer.switching.active && sends_by_pair(peer);
}

// Queue pairs that an earlier pattern of communication has used cost the adapter nothing.
void ChannelSwitches::end_of_unit(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  its.active = peer.stream.received != its.seen_received || peer.stream.sent != its.seen_sent;
  its.seen_received = peer.stream.received;
  its.seen_sent = peer.stream.sent;
}

uint32_t ChannelSwitches::active_pairs(const RdmaPeer* but) const {
  return uint32_t(std::count_if(paired_.begin(), paired_.end(), [&](const RdmaPeer* peer) {
    return peer != but && peer->switching.active && pair_used(*peer);
  }));
}

// With connected queue pairs for all there is nothing to decide: they are counted, so that others know.
uint32_t ChannelSwitches::update_share() {
  adapter_.share.set_claimed(base_ == ChannelKind::rc ? uint32_t(connections_.pairs()) : active_pairs(nullptr));
  adapter_.share.set_rings(uint32_t(polled_.size()));
  return std::min(max_active_pairs_, adapter_.share.most());
}

// Whether a stream with that peer, in either direction, may use a connected queue pair: the adapter caches the state of
// a few active ones, whichever of the two ranks has asked, and whichever rank of the node uses them. Where the user has
// asked for connected channels there is no limit. False: not now, but perhaps when another one has been given up.
bool ChannelSwitches::take_pair(RdmaPeer& peer) {
  if (peer.switching.retiring) return false;
  const uint32_t active = active_pairs(&peer);
  if (max_active_pairs_ == ~uint32_t{0}) adapter_.share.set_claimed(active + 1);
  else if (active >= max_active_pairs_ || !adapter_.share.claim(active + 1)) return false;
  if (!peer.connection.pair && connections_.pairs() >= max_pairs_) {
    retire_one();
    return false;
  }
  peer.switching.active = true;
  TERN_DEBUG_ASSERT(!peer.switching.retiring);
  if (peer.connection.pair) {
    std::erase(paired_, &peer);
    TERN_DEBUG_ASSERT(std::find(paired_.begin(), paired_.end(), &peer) == paired_.end());
    paired_.push_back(&peer);
  }
  return true;
}

// A peer that was asked and is silent, because it computes, does not prevent asking others.
void ChannelSwitches::retire_one() {
  for (RdmaPeer* peer : paired_) {
    if (peer->state != RdmaPeer::State::ready || peer->outstanding != 0 || pair_used(*peer)) continue;
    if (peer->switching.retiring || !peer->switching.outbox.empty()) continue;
    TERN_DEBUG_ASSERT(!pair_used(*peer) && peer->outstanding == 0);
    peer->switching.retiring = true;
    wire::RdmaChange change;
    change.step = Step::retire;
    tell(*peer, change);
    return;
  }
}

// Does not wait until nothing is outstanding: with a peer that takes no more receives that might last for ever.
void ChannelSwitches::on_retirement(RdmaPeer& peer, Step step) {
  OfPeer& its = peer.switching;
  if (step == Step::retire && !its.retiring) {
    wire::RdmaChange answer;
    answer.step = pair_used(peer) || peer.outstanding != 0 ? Step::keep : Step::retired;
    if (answer.step == Step::retired) give_pair_up(peer);
    tell(peer, answer);
  } else if (its.retiring) {
    its.retiring = false;
    if (step != Step::keep) give_pair_up(peer);  // retire: both have asked
  }
}

void ChannelSwitches::give_pair_up(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  its.retiring = its.joined = false;
  its.connected.reset();
  std::erase(paired_, &peer);
  if (peer.connection.pair) connections_.keep_pair(peer);
}

Error ChannelSwitches::make_pair(RdmaPeer& peer) {
  if (peer.connection.pair) return {};
  if (Error error = connections_.make_pair(peer)) return error;
  TERN_DEBUG_ASSERT(std::find(paired_.begin(), paired_.end(), &peer) == paired_.end() && peer.connection.pair);
  paired_.push_back(&peer);
  return {};
}

// Both streams of the pair use one queue pair; the other one may have connected it.
Error ChannelSwitches::connect_pair(RdmaPeer& peer, const wire::RdmaAddress& remote) {
  const auto address = std::bit_cast<rdma::QueuePairAddress>(remote);
  if (peer.connection.pair->state() == rdma::QueuePair::State::idle) return connections_.connect_pair(peer, address);
  if (peer.connection.pair->state() == rdma::QueuePair::State::ready && peer.connection.remote == address) return {};
  return Error(ErrorClass::other, "the queue pair is connected to another one");
}

Channel& ChannelSwitches::connected_channel(RdmaPeer& peer) {
  OfPeer& its = peer.switching;
  if (!its.connected)
    its.connected = std::make_unique<ConnectedChannel>(adapter_, *peer.connection.pair, peer.connection.frame_bytes);
  return *its.connected;
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
  if (!peer.connection.pair && connections_.pairs() >= max_pairs_) retire_one();
  if (Error error = make_pair(peer)) {
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
  if (base_ != ChannelKind::rc && change.has_pair && !make_pair(peer) && !connect_pair(peer, change.pair)) {
    answer.step = Step::joined;
    answer.pair = std::bit_cast<wire::RdmaAddress>(peer.connection.pair->address());
  }
  tell(peer, answer);
}

void ChannelSwitches::on_joined(RdmaPeer& peer, const wire::RdmaChange& change) {
  OfPeer& its = peer.switching;
  if (!std::exchange(its.joining, false)) return;
  if (change.step == Step::unable || connect_pair(peer, change.pair)) {
    peers_.break_peer(peer, "it has no queue pair for transfers");
    return;
  }
  connected_channel(peer);
  its.joined = true;
  TERN_DEBUG_ASSERT(peer.connection.pair && its.connected);
  adapter_.block(peer);  // transfers wait
}

}  // namespace tern
