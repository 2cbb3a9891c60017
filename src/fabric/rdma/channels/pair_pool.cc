#include "fabric/rdma/channels/pair_pool.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "fabric/rdma/channels/send_channels.h"
#include "fabric/rdma/rdma_peer.h"

namespace tern {

PairPool::PairPool(RdmaAdapter& adapter, RdmaConnections& connections, const Tunables& tunables)
    : adapter_(adapter),
      connections_(connections),
      max_pairs_(uint32_t(tunables.rdma_rc_pool)),
      max_active_(tunables.rdma_channels.starts_with("auto") ? uint32_t(tunables.rdma_rc_active) : ~uint32_t{0}) {}

bool PairPool::sends_by_pair(const RdmaPeer& peer) const {
  const ChannelSwitches::OfPeer& its = peer.switching;
  return (its.out && needs_pair(its.out->traits().kind)) || (its.leaving && needs_pair(its.out_next));
}

bool PairPool::used(const RdmaPeer& peer) const {
  const ChannelSwitches::OfPeer& its = peer.switching;
  const bool transfers = its.joining || (its.joined && !peer.transfers.waiting.empty());
  return needs_pair(its.kind) || needs_pair(its.next_kind) || sends_by_pair(peer) || transfers;
}

bool PairPool::full() const { return connections_.pairs() >= max_pairs_; }

// A peer that was asked and is silent, because it computes, does not prevent asking others.
RdmaPeer* PairPool::unused() const {
  for (RdmaPeer* peer : paired_) {
    if (peer->state != RdmaPeer::State::ready || peer->outstanding != 0 || used(*peer)) continue;
    if (!peer->switching.retiring && peer->switching.outbox.empty()) return peer;
  }
  return nullptr;
}

// Queue pairs that an earlier pattern of communication has used cost the adapter nothing.
uint32_t PairPool::active(const RdmaPeer* but) const {
  return uint32_t(std::count_if(paired_.begin(), paired_.end(), [&](const RdmaPeer* peer) {
    return peer != but && peer->switching.active && used(*peer);
  }));
}

uint32_t PairPool::in_use() const {
  return base_ == ChannelKind::rc ? uint32_t(connections_.pairs()) : active(nullptr);
}

uint32_t PairPool::most_in_use() const { return std::min(max_active_, adapter_.share.most()); }

// Where the user has asked for connected channels there is no limit.
PairPool::Answer PairPool::take(RdmaPeer& peer) {
  if (peer.switching.retiring) return Answer::not_now;
  const uint32_t others = active(&peer);
  if (max_active_ == ~uint32_t{0}) adapter_.share.set_claimed(others + 1);
  else if (others >= max_active_ || !adapter_.share.claim(others + 1)) return Answer::not_now;
  if (!peer.connection.pair && full()) return Answer::full;
  peer.switching.active = true;
  if (peer.connection.pair) {
    std::erase(paired_, &peer);
    TERN_DEBUG_ASSERT(std::find(paired_.begin(), paired_.end(), &peer) == paired_.end());
    paired_.push_back(&peer);
  }
  return Answer::yes;
}

Error PairPool::make(RdmaPeer& peer) {
  if (peer.connection.pair) return {};
  if (Error error = connections_.make_pair(peer)) return error;
  TERN_DEBUG_ASSERT(std::find(paired_.begin(), paired_.end(), &peer) == paired_.end() && peer.connection.pair);
  paired_.push_back(&peer);
  return {};
}

Error PairPool::connect(RdmaPeer& peer, const wire::RdmaAddress& remote) {
  const auto address = std::bit_cast<rdma::QueuePairAddress>(remote);
  if (peer.connection.pair->state() == rdma::QueuePair::State::idle) return connections_.connect_pair(peer, address);
  if (peer.connection.pair->state() == rdma::QueuePair::State::ready && peer.connection.remote == address) return {};
  return Error(ErrorClass::other, "the queue pair is connected to another one");
}

Channel& PairPool::channel(RdmaPeer& peer) {
  std::unique_ptr<Channel>& channel = peer.switching.connected;
  if (!channel)
    channel = std::make_unique<ConnectedChannel>(adapter_, *peer.connection.pair, peer.connection.frame_bytes);
  return *channel;
}

void PairPool::give_up(RdmaPeer& peer) {
  peer.switching.retiring = peer.switching.joined = false;
  peer.switching.connected.reset();
  std::erase(paired_, &peer);
  if (peer.connection.pair) connections_.keep_pair(peer);
}

void PairPool::forget(RdmaPeer& peer) { std::erase(paired_, &peer); }

}  // namespace tern
