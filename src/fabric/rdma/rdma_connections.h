// RdmaConnections: how a connection is made on first contact, and how dead peers are found. Every rank has a datagram
// queue pair, whose address it publishes as its card:
//
//   A                                   B
//     hello {A's queue pair} ------------>  makes its queue pair, connects it to A's
//     <----------- welcome {B's queue pair}
//     connects, sends a frame ----------->  now knows that A is connected, and sends, too
//
// Greetings may be lost and are repeated; both may begin at the same time (each then connects on the other's hello). A
// greeting is accepted only with the job key's signature.
//
// Ranks that only receive find a dead peer by empty writes to peers that were silent for a while
// (TERN_RDMA_KEEPALIVE_MS): the peer's adapter answers such a write without its CPU, so a peer that computes is not
// considered dead.
//
// What the greeting tells is the address of the base channel, with which all streams begin: a queue pair for this peer
// (rc), a DC target (dc), the queue pair of all datagrams (ud), or what channels/xrc_endpoint.h says. With XRC the two
// directions are connected separately: each rank is ready when it has its own welcome.
//
// Units: nanoseconds. Thread rule: the rank's lock.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/rdma_adapter.h"
#include "wire/rdma.h"

namespace tern {

class DcEndpoint;
class RdmaPeers;
class UdEndpoint;
class XrcEndpoint;

inline constexpr uint32_t kRdmaGreetingSlots = 64;  ///< each way; greetings without a slot are lost and repeated

class RdmaConnections {
 public:
  /// Gets what `peer` published as its card; called on first contact only. May block.
  using Lookup = std::function<Error(PeerId peer, std::string& card)>;

  struct OfPeer {
    bool connected = false;                 ///< the base channel can be used
    std::unique_ptr<rdma::QueuePair> pair;  ///< null: none is needed
    rdma::QueuePairAddress remote;          ///< of its queue pair; when that is connected
    rdma::QueuePairAddress base;            ///< of its base channel
    wire::RdmaCard card;                    ///< what it has published, when `address_handle` is there
    std::unique_ptr<rdma::AddressHandle> address_handle;
    uint32_t frame_bytes = 0;  ///< longest frame that both sides have slots for; when connected
    uint32_t call = 0;         ///< the peer's number for this rank
    bool greeted = false;      ///< hellos are repeated
    uint64_t retry_ns = 0, retry_wait_ns = 0, give_up_ns = 0;
  };

  /// Both outlive this.
  RdmaConnections(RdmaAdapter& adapter, RdmaPeers& peers, const Tunables& tunables, Lookup lookup);
  /// The base channel. `dc`, `ud`, `xrc`: what that kind, or changes to it, need; null: nothing does. They outlive
  /// this.
  Error start(ChannelKind base, const DcEndpoint* dc, const UdEndpoint* ud, XrcEndpoint* xrc);
  /// What peers need to greet this rank.
  const std::string& card() const { return card_; }

  /// Begins a connection from our side. Fails by RdmaPeers::break_peer.
  void contact(RdmaPeer& peer);
  /// A frame came from there, so the peer is connected, too.
  void answered_is_ready(RdmaPeer& peer);
  /// No more greetings to that peer.
  void stop_greeting(RdmaPeer& peer);
  /// Nothing is outstanding: its queue pair goes.
  void close(RdmaPeer& peer);
  void close_all_greetings();

  // --- Queue pairs that ChannelSwitches needs.
  /// The peer has one, connected or not. Error: the adapter has no more.
  Error make_pair(RdmaPeer& peer);
  Error connect_pair(RdmaPeer& peer, const rdma::QueuePairAddress& remote);
  /// Nothing is outstanding on it on either side: another peer may use it.
  void keep_pair(RdmaPeer& peer);
  /// Queue pairs of peers that exist.
  size_t pairs() const { return pairs_; }

  /// Null: not one of ours (any more).
  RdmaPeer* by_number(uint32_t queue_pair) const {
    auto found = by_number_.find(queue_pair);
    return found != by_number_.end() ? found->second : nullptr;
  }
  size_t count() const { return connected_.size(); }

  // Completions.
  void on_greeting_in(const rdma::Completion& completion);
  void on_greeting_out(const rdma::Completion& completion);

  // Timers.
  bool timers() const { return !greeted_.empty() || keepalive_due_ns_ != ~uint64_t{0}; }
  uint64_t next_deadline_ns() const;
  void run_timers(uint64_t now_ns);

 private:
  Error prepare(RdmaPeer& peer);
  bool base_address(RdmaPeer& peer, wire::RdmaGreeting::Kind kind, rdma::QueuePairAddress& address);
  Error connect_to_self(RdmaPeer& peer);
  void greet(RdmaPeer& peer, wire::RdmaGreeting::Kind kind);
  void repeat_hellos(RdmaPeer& peer);
  void on_greeting(const std::byte* data, size_t bytes);
  void on_hello(RdmaPeer& peer, const wire::RdmaGreeting& greeting);
  bool connect(RdmaPeer& peer, const wire::RdmaGreeting& greeting);
  bool connect_node(RdmaPeer& peer, const wire::RdmaGreeting& welcome);
  void become_ready(RdmaPeer& peer, bool tell);
  void post_greeting_receive(uint32_t slot);
  void on_greeting_flushed();
  void look_for_the_silent();

  RdmaAdapter& adapter_;
  RdmaPeers& peers_;
  const Lookup lookup_;
  const uint64_t connect_timeout_ns_, keepalive_ns_, greeting_ns_;
  std::string card_;
  std::unique_ptr<rdma::QueuePair> datagrams_;
  std::vector<uint32_t> free_greetings_;  ///< slots for sending
  // A software adapter whose link is down puts even the datagram queue pair into the error state. It is reset when all
  // its requests have come back.
  bool datagrams_failed_ = false;
  std::vector<uint32_t> flushed_receives_;  ///< slots; only while it has failed
  std::vector<RdmaPeer*> greeted_;
  std::unordered_map<uint32_t, RdmaPeer*> by_number_;  ///< by our connected queue pair's number
  std::vector<RdmaPeer*> connected_;
  size_t pairs_ = 0;
  std::vector<std::unique_ptr<rdma::QueuePair>> spare_pairs_;  ///< idle; making one takes milliseconds
  // See `start`.
  ChannelKind base_ = ChannelKind::rc;
  const DcEndpoint* dc_ = nullptr;
  const UdEndpoint* ud_ = nullptr;
  XrcEndpoint* xrc_ = nullptr;
  uint64_t keepalive_due_ns_ = ~uint64_t{0};
};

}  // namespace tern
