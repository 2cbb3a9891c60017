// ConnectedChannel (kind rc): a reliable queue pair of its own for the peer, and receives that all peers share.
// Thread rule: the rank's lock.
#pragma once

#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/rdma_adapter.h"

namespace tern {

class ConnectedChannel final : public Channel {
 public:
  /// Both outlive this.
  ConnectedChannel(RdmaAdapter& adapter, rdma::QueuePair& pair, size_t frame_bytes)
      : Channel(ChannelKind::rc, frame_bytes), adapter_(adapter), pair_(pair) {}

  bool post_frame(RdmaPeer& peer, rdma::WorkRequest& work) override {
    work.verb = rdma::Verb::send;
    return adapter_.post(peer, pair_, work);
  }
  bool post(RdmaPeer& peer, rdma::WorkRequest& work) override { return adapter_.post(peer, pair_, work); }

 private:
  RdmaAdapter& adapter_;
  rdma::QueuePair& pair_;
};

}  // namespace tern
