// RdmaCompletions: what a completion of the adapter is about, and who is told: a frame of a peer, a message or transfer
// that has left, a greeting. A request that fails breaks its peer. The tags are RdmaAdapter's.
//
// Owns nothing but the batch that is being handled. Thread rule: the rank's lock; never called from itself.
#pragma once

#include "fabric/rdma/channels/dc_endpoint.h"
#include "fabric/rdma/channels/ud_endpoint.h"
#include "fabric/rdma/channels/xrc_endpoint.h"
#include "fabric/rdma/rdma_peer_table.h"

namespace tern {

class RdmaCompletions final : public RdmaArrivals {
 public:
  /// Null: that kind is not used.
  struct Endpoints {
    DcEndpoint* dc = nullptr;
    UdEndpoint* ud = nullptr;
    XrcEndpoint* xrc = nullptr;
  };

  /// All outlive this.
  RdmaCompletions(RdmaAdapter& adapter, RdmaPeerTable& table, RdmaPeers& peers, RdmaConnections& connections,
                  RdmaTransfers& transfers, MessageStreams& streams)
      : adapter_(adapter),
        table_(table),
        peers_(peers),
        connections_(connections),
        transfers_(transfers),
        streams_(streams) {}
  /// Before the first completion. They outlive this.
  void set_endpoints(const Endpoints& by) { by_ = by; }

  /// Takes a batch from the adapter and handles it. Returns how many there were.
  int take();
  /// For a short poll (Path::poll_shortly): as `take`, but stops before a completion that needs the rank, and leaves it
  /// and the following ones to `take`; -1 then.
  int take_shortly();
  void on_stream_frame(RdmaPeer& peer, const std::byte* data, size_t bytes) override;
  void on_completion(const rdma::Completion& completion) override;

 private:
  void on_receive(const rdma::Completion& completion);
  bool hears(RdmaPeer& peer);
  bool returned(RdmaPeer& peer, const rdma::Completion& completion);

  RdmaAdapter& adapter_;
  RdmaPeerTable& table_;
  RdmaPeers& peers_;
  RdmaConnections& connections_;
  RdmaTransfers& transfers_;
  MessageStreams& streams_;
  Endpoints by_;
  rdma::Completion batch_[RdmaAdapter::kBatch];  ///< being handled
};

}  // namespace tern
