// ChannelSwitches: changes the channel that carries a stream of messages, without losing or reordering any. The
// receiver begins (it knows what arrives, and it has to poll):
//
//   receiver (initiator)                          sender (responder)
//   J1 makes a ring     -- offer {ring, pair} -->
//                                                 J2 makes its queue pair, connects it
//                       <-- accept {pair} -------
//   J3 connects         -- ready --------------->
//                                                 J4 sends `last` over the old channel, as the stream's next frame,
//                                                    and whatever follows over the new one
//   J5 takes `last`, and only then what came over the new channel
//
// Accept and ready are omitted if no queue pair must be connected. `last` is a frame of the stream like any other, so
// the old channel's order says which frames came before it. Frames that overtake it (by the shared queue) are held; a
// new ring is not polled before. Credit belongs to a channel: both sides begin with the new one's, and credit for the
// old one (it names its epoch) is ignored. Offers and answers go by the base channel, in order, and take no credit.
//
// Streams of the two directions change independently of each other. They share the connected queue pair. A pair that no
// stream uses is kept for the next time, until another peer needs one and the pool is full (pair_pool.h).
//
// Transfers go by the channel of the messages to that peer, if it carries any. Datagrams carry none: then the side that
// needs a queue pair for its transfers asks for one (join, joined), and both streams stay as they are.
//
// Source: Takagi et al. 2015, section 3.3 (J1-J5). The paper sends the position of the last message separately, and
// stops sending meanwhile; neither is needed here. Thread rule: the rank's lock.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/counters.h"
#include "fabric/rdma/channels/pair_pool.h"
#include "fabric/rdma/channels/ring.h"
#include "fabric/rdma/rdma_adapter.h"
#include "wire/rdma.h"

namespace tern {

class DcEndpoint;
class MessageStreams;
class RdmaConnections;
class RdmaPeers;
class UdEndpoint;

class ChannelSwitches {
 public:
  struct OfPeer {
    // The peer's stream to us.
    ChannelKind kind = ChannelKind::rc;       ///< what carries it
    ChannelKind next_kind = ChannelKind::rc;  ///< what it is changing to
    bool changing = false;                    ///< between J1 and J5
    bool refused = false;                     ///< a connected channel cannot be had; see `forgive`
    std::unique_ptr<Ring> ring, next_ring;
    uint32_t empty_polls = 0;  ///< of the ring, since a frame was in it
    // Ours to the peer.
    bool leaving = false;    ///< between the offer and J4
    bool may_leave = false;  ///< J4 is due: when there is credit
    ChannelKind out_next = ChannelKind::rc;
    std::unique_ptr<Channel> connected;              ///< that of rc_rdma and of transfers, where the base is another
    std::unique_ptr<Channel> out, out_next_channel;  ///< null: the base
    uint32_t out_next_window = 0;
    std::vector<wire::RdmaChange> outbox;  ///< messages for which there was no room
    // The queue pair of `connected`; see pair_pool.h.
    bool active = false;  ///< it was taken or used since the end of the last unit but one
    uint32_t seen_received = 0, seen_sent = 0;
    bool retiring = false;  ///< the peer was asked to give its end up
    // For our transfers: we have asked the peer to connect it; both ends are connected.
    bool joining = false, joined = false;
  };

  /// All outlive this.
  ChannelSwitches(RdmaAdapter& adapter, RdmaPeers& peers, RdmaConnections& connections, MessageStreams& streams,
                  const Tunables& tunables);

  /// The channel with which every stream begins, and the one that it changes to after its first message. `dc`: needed
  /// if the first is dc; `ud`: for streams by datagrams. Both outlive this.
  void set_base(ChannelKind base, ChannelKind on_demand, DcEndpoint* dc, UdEndpoint* ud) {
    base_ = base;
    pairs_.set_base(base);
    on_demand_ = on_demand;
    dc_ = dc;
    ud_ = ud;
  }
  ChannelKind base() const { return base_; }
  /// The peer is connected.
  void begin(RdmaPeer& peer);
  /// Lets the peer's stream come by that channel. False: it cannot, or is changing already.
  bool request(RdmaPeer& peer, ChannelKind kind);
  /// A connected channel that was refused may be asked for again.
  void forgive(RdmaPeer& peer);
  /// A unit of the statistics is over.
  void end_of_unit(RdmaPeer& peer);
  /// After end_of_unit of all peers: tells the other ranks of the node what this one uses of the adapter. Returns how
  /// many peers may have a connected queue pair now.
  uint32_t update_share();
  /// Our stream to the peer uses a connected queue pair beside the base, and the pair was used in the last unit.
  bool sends_connected(const RdmaPeer& peer) const;
  /// See RdmaPeers.
  Channel* transfer_channel(RdmaPeer& peer);
  /// This rank is about to sleep. False: something is in a ring already. If writes into rings do not wake it, it gives
  /// its rings up, and naps only (next_deadline_ns) until they are empty for good.
  bool arm();
  void end_nap() { napping_until_ns_ = ~uint64_t{0}; }
  uint64_t next_deadline_ns() const { return napping_until_ns_; }

  void on_change(RdmaPeer& peer, const wire::RdmaFrame& frame);
  /// The peer has begun to send: a peer that never does so takes no ring (Takagi et al. 2015, section 4.1).
  void on_first_message(RdmaPeer& peer) {
    if (on_demand_ != base_) request(peer, on_demand_);
  }
  /// The peer's stream continues on the next channel.
  void on_last(RdmaPeer& peer);
  /// There may be room, or credit.
  void pump(RdmaPeer& peer);
  /// Polls all rings. Returns how many frames were taken.
  int poll(Counters& counters);
  bool any_ring() const { return !polled_.empty(); }
  /// Nothing is outstanding: frees everything of that peer.
  void forget(RdmaPeer& peer);

  /// Of incoming streams, by kind. Memory: of all rings.
  uint32_t count(ChannelKind kind) const { return counts_[size_t(kind)]; }
  size_t ring_bytes() const { return ring_bytes_; }
  uint64_t switches() const { return switches_; }

 private:
  void pump_slow(RdmaPeer& peer);
  void on_offer(RdmaPeer& peer, const wire::RdmaChange& offer);
  void on_accept(RdmaPeer& peer, const wire::RdmaChange& change);
  bool make_carrier(RdmaPeer& peer, const wire::RdmaChange& offer);
  bool take_pair(RdmaPeer& peer);
  void join(RdmaPeer& peer);
  void on_join(RdmaPeer& peer, const wire::RdmaChange& change);
  void on_joined(RdmaPeer& peer, const wire::RdmaChange& change);
  void retire_one();
  void on_retirement(RdmaPeer& peer, wire::RdmaChange::Step step);
  void leave(RdmaPeer& peer);
  void refuse(RdmaPeer& peer, const wire::RdmaChange& offer);
  void give_up_change(RdmaPeer& peer);
  void tell(RdmaPeer& peer, const wire::RdmaChange& change);
  void set_kind(RdmaPeer& peer, ChannelKind kind);
  std::unique_ptr<Ring> take_ring();
  void keep_ring(std::unique_ptr<Ring> ring);

  RdmaAdapter& adapter_;
  RdmaPeers& peers_;
  MessageStreams& streams_;
  const uint32_t ring_entries_;
  const size_t entry_bytes_;
  const bool ordered_writes_;
  PairPool pairs_;  ///< beside a base that needs none
  ChannelKind base_ = ChannelKind::rc, on_demand_ = ChannelKind::rc;
  DcEndpoint* dc_ = nullptr;
  UdEndpoint* ud_ = nullptr;
  std::vector<RdmaPeer*> polled_;  ///< their streams come by rings
  std::vector<std::unique_ptr<Ring>> spare_rings_;
  std::array<uint32_t, kChannelKinds> counts_{};
  size_t ring_bytes_ = 0;
  uint32_t polls_ = 0;
  uint64_t switches_ = 0;
  uint64_t napping_until_ns_ = ~uint64_t{0};  ///< asleep with rings that do not wake
};

}  // namespace tern
