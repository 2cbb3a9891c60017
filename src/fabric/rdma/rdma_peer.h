// RdmaPeer: the RDMA path's lane to one peer. Each part of the path keeps its own state of the peer in a struct of its
// own, which the other parts do not touch; state that all of them need stands here.
//
// Thread rule: the rank's lock.
#pragma once

#include <cstdint>
#include <string>

#include "fabric/lane.h"
#include "fabric/rdma/channels/channel_switches.h"
#include "fabric/rdma/channels/ud_endpoint.h"
#include "fabric/rdma/channels/xrc_endpoint.h"
#include "fabric/rdma/memory/rdma_transfers.h"
#include "fabric/rdma/message_streams.h"
#include "fabric/rdma/rdma_connections.h"

namespace tern {

struct RdmaPeer final : Lane {
  using Lane::Lane;

  enum class State : uint8_t {
    fresh,     ///< never heard of
    greeting,  ///< we have said hello
    answered,  ///< our end is connected, the peer's perhaps not yet
    ready,
    broken,  ///< a request failed; waits for the others to come back
    lost,
  };
  State state = State::fresh;
  bool blocked = false;      ///< in the adapter's list
  bool heard = true;         ///< something came from there since the last check
  uint32_t outstanding = 0;  ///< requests of the adapter; see RdmaAdapter
  uint32_t incarnation = 0;  ///< how often the lane was restarted
  RdmaConnections::OfPeer connection;
  MessageStreams::OfPeer stream;
  ChannelSwitches::OfPeer switching;
  UdEndpoint::OfPeer datagrams;
  XrcEndpoint::OfPeer xrc;
  RdmaTransfers::OfPeer transfers;
  std::string trouble;  ///< why it is broken
};

/// What the parts ask of the path.
class RdmaPeers {
 public:
  virtual RdmaPeer* find(PeerId peer) = 0;  ///< null: no such peer
  /// Our end of the base channel is connected; and how many frames the peer grants.
  virtual void on_connected(RdmaPeer& peer, uint32_t window) = 0;
  /// Both ends are connected: waiting messages may leave. `tell`: the peer does not know it yet, any frame tells it.
  virtual void on_ready(RdmaPeer& peer, bool tell) = 0;
  /// What carries transfers to a peer that is ready now. Null: nothing yet; the peer is blocked until something does.
  virtual Channel* transfer_channel(RdmaPeer& peer) = 0;
  /// The connection is broken. Idempotent; the peer is lost when nothing is outstanding.
  virtual void break_peer(RdmaPeer& peer, std::string trouble) = 0;
  /// For operations that end because of it.
  virtual Error reason(const RdmaPeer& peer) const = 0;

 protected:
  ~RdmaPeers() = default;
};

/// Takes what does not come from the adapter's own queues.
class RdmaArrivals {
 public:
  /// A frame that came by the stream of a peer's datagrams.
  virtual void on_stream_frame(RdmaPeer& peer, const std::byte* data, size_t bytes) = 0;
  /// A completion that no queue gives any more.
  virtual void on_completion(const rdma::Completion& completion) = 0;

 protected:
  ~RdmaArrivals() = default;
};

}  // namespace tern
