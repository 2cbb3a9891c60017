// XrcEndpoint: connected queue pairs for each node instead of each rank (extended reliable connections; Koop et al.
// 2008 for MPI). A rank has one initiator for each node that it sends to, and a shared receive queue that has a number.
// A message names the queue of its receiver, so one connection serves all ranks of the node:
//
//   rank 0's initiator for node B  ---->  a target in some rank of node B  ---->  queue 17 (rank 4), queue 18 (rank 5)
//
// The greetings make the two directions separately: `hello` says which initiator needs a target (none: the node is
// connected), and `welcome` which target was made for it. While one rank of a node is asked for a target, the greetings
// of the others wait, so that there is one.
//
// A request that fails ends the connections to all ranks of its node: they share the initiator. Transfers need a queue
// pair of the pool, as with datagrams. Where the adapters of a node's ranks have separate domains
// (Capabilities::shared_xrc is false) each rank counts as a node of its own.
//
// Units: bytes. Thread rule: the rank's lock.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/rdma_adapter.h"
#include "wire/rdma.h"

namespace tern {

class RdmaPeers;

class XrcEndpoint {
 public:
  struct Node {
    std::unique_ptr<rdma::QueuePair> initiator;
    bool connected = false;
    bool failed = false;        ///< it is made anew when nothing is outstanding
    RdmaPeer* asked = nullptr;  ///< for a target
    uint32_t outstanding = 0;
    std::vector<RdmaPeer*> peers;  ///< connected by it
  };
  struct OfPeer {
    Node* node = nullptr;           ///< null: not met
    rdma::QueuePairAddress target;  ///< ours for the peer's initiator; number 0: it needs none
  };

  /// Both outlive this.
  XrcEndpoint(RdmaAdapter& adapter, RdmaPeers& peers) : adapter_(adapter), peers_(peers) {}
  /// What peers must know.
  void describe(wire::RdmaCard& card) const;

  // --- Greetings. The peer's card is there.
  /// What a hello says: our initiator that needs a target; number 0: the node is connected. False: the peer must wait,
  /// another one of its node was asked.
  bool hello(RdmaPeer& peer, rdma::QueuePairAddress& initiator);
  /// For a hello of the peer: makes what its initiator needs; `OfPeer::target` is the answer.
  Error on_hello(RdmaPeer& peer, const rdma::QueuePairAddress& initiator);
  /// For the peer's welcome. True: its node has just been connected, greetings that waited may leave.
  Error on_welcome(RdmaPeer& peer, const rdma::QueuePairAddress& target, bool& news);

  /// The sender's end for a peer whose node is connected, or will be.
  std::unique_ptr<Channel> make_channel(RdmaPeer& peer);
  /// A request has completed, on whatever queue pair.
  void on_completion(const rdma::Completion& completion);
  /// Nothing of that peer is outstanding, or expected any more.
  void forget(RdmaPeer& peer);

 private:
  friend class XrcChannel;
  Node& node_of(RdmaPeer& peer);
  void renew(Node& node);
  bool room(const RdmaPeer& peer, uint32_t requests) const;
  bool post(RdmaPeer& peer, rdma::WorkRequest& work);

  struct Target {
    std::unique_ptr<rdma::QueuePair> pair;
    rdma::QueuePairAddress initiator;
  };
  RdmaAdapter& adapter_;
  RdmaPeers& peers_;
  std::map<std::string, Node> nodes_;  ///< by the port's address
  std::vector<Target> targets_;
};

}  // namespace tern
