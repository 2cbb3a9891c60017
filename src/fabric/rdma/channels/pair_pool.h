// PairPool: connected queue pairs of channels whose base needs none: at most TERN_RDMA_RC_POOL, since making one takes
// milliseconds (Takagi et al. 2015, section 3.4), of which a few are used at one time: the adapter caches the state of
// a few, whichever rank of the node uses them. A peer keeps its queue pair while no stream uses it.
//
// Decides who may have one, and whose is given up. It tells no peer: channel_pairs.cc does. Thread rule: the rank's
// lock.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/tunables.h"
#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/rdma_adapter.h"
#include "wire/rdma.h"

namespace tern {

class RdmaConnections;
struct RdmaPeer;

class PairPool {
 public:
  /// `not_now`: perhaps when another one has been given up. `full`: it must be.
  enum class Answer : uint8_t { yes, not_now, full };

  /// Both outlive this.
  PairPool(RdmaAdapter& adapter, RdmaConnections& connections, const Tunables& tunables);
  /// The channel with which every stream begins.
  void set_base(ChannelKind base) { base_ = base; }

  /// Whether streams by that channel use a queue pair of the pool.
  bool needs_pair(ChannelKind kind) const {
    return base_ != ChannelKind::rc && (kind == ChannelKind::rc || kind == ChannelKind::rc_rdma);
  }
  /// Our stream to the peer uses its queue pair, or is about to.
  bool sends_by_pair(const RdmaPeer& peer) const;
  /// A stream of either direction uses it, or transfers do.
  bool used(const RdmaPeer& peer) const;
  /// A new queue pair would be beyond the pool's size.
  bool full() const;
  /// The peer whose queue pair is not used and was taken longest ago, and which was not asked to give it up; null:
  /// none.
  RdmaPeer* unused() const;

  /// Whether a stream with that peer, in either direction, may use a connected queue pair.
  Answer take(RdmaPeer& peer);
  /// Makes this rank's end, if there is none.
  Error make(RdmaPeer& peer);
  /// Both streams of a pair of ranks use one queue pair; the other one may have connected it.
  Error connect(RdmaPeer& peer, const wire::RdmaAddress& remote);
  /// The channel over it.
  Channel& channel(RdmaPeer& peer);
  /// This rank's end is idle, for the next peer.
  void give_up(RdmaPeer& peer);
  /// The peer is lost; its connection frees the queue pair.
  void forget(RdmaPeer& peer);

  /// How many queue pairs this rank uses: with connected ones for all there is nothing to decide, and all count, so
  /// that the other ranks of the node know.
  uint32_t in_use() const;
  /// How many peers may have one now.
  uint32_t most_in_use() const;

 private:
  uint32_t active(const RdmaPeer* but) const;

  RdmaAdapter& adapter_;
  RdmaConnections& connections_;
  const uint32_t max_pairs_, max_active_;
  ChannelKind base_ = ChannelKind::rc;
  std::vector<RdmaPeer*> paired_;  ///< peers with such a queue pair; the last to take theirs are last
};

}  // namespace tern
