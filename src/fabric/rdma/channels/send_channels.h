// The channels whose frames arrive by receives of the shared queue, and which carry transfers for the others: kinds rc
// and dc. Thread rule: the rank's lock.
#pragma once

#include "fabric/rdma/channels/channel.h"
#include "fabric/rdma/channels/dc_endpoint.h"
#include "fabric/rdma/rdma_adapter.h"

namespace tern {

/// A reliable queue pair of its own for the peer.
class ConnectedChannel final : public Channel {
 public:
  /// Both outlive this.
  ConnectedChannel(RdmaAdapter& adapter, rdma::QueuePair& pair, size_t frame_bytes)
      : Channel({.kind = ChannelKind::rc, .frame_bytes = frame_bytes}), adapter_(adapter), pair_(pair) {}

  bool room(const RdmaPeer& peer, uint32_t requests) const override { return adapter_.room(peer, requests); }
  void post_frame(RdmaPeer& peer, rdma::WorkRequest& work, rdma::Piece& piece) override {
    work.verb = rdma::Verb::send;
    work.pieces = &piece;
    work.piece_count = 1;
    [[maybe_unused]] const bool posted = adapter_.post(peer, pair_, work);
    TERN_ASSERT(posted);  // a queue pair has the depth that was asked for
  }
  bool post(RdmaPeer& peer, rdma::WorkRequest& work) override { return adapter_.post(peer, pair_, work); }

 private:
  RdmaAdapter& adapter_;
  rdma::QueuePair& pair_;
};

/// One of the pool of DC initiators, which all peers share.
class DcChannel final : public Channel {
 public:
  /// Endpoint and address handle outlive this. `joins`: see DcEndpoint::join; else the initiator that follows from the
  /// peer.
  DcChannel(DcEndpoint& endpoint, PeerId peer, bool joins, const rdma::AddressHandle& address_handle,
            const rdma::QueuePairAddress& target, size_t frame_bytes)
      : Channel({.kind = ChannelKind::dc, .frame_bytes = frame_bytes, .keeps_memory = true}),
        endpoint_(endpoint),
        joined_(joins),
        initiator_(joins ? endpoint.join() : endpoint.index(peer)),
        address_handle_(address_handle),
        target_(target) {}
  ~DcChannel() override {
    if (joined_) endpoint_.leave(initiator_);
  }

  bool room(const RdmaPeer& peer, uint32_t requests) const override {
    return endpoint_.room(peer, requests, initiator_);
  }
  void post_frame(RdmaPeer& peer, rdma::WorkRequest& work, rdma::Piece& piece) override {
    work.verb = rdma::Verb::send;
    work.pieces = &piece;
    work.piece_count = 1;
    [[maybe_unused]] const bool posted = post(peer, work);
    TERN_ASSERT(posted);
  }
  bool post(RdmaPeer& peer, rdma::WorkRequest& work) override {
    if (!room(peer, 1)) return false;
    work.address_handle = &address_handle_;
    work.remote_number = target_.number;
    work.remote_key_of_queue = target_.key;
    endpoint_.post(peer, work, initiator_);
    return true;
  }

 private:
  DcEndpoint& endpoint_;
  const bool joined_;
  const uint32_t initiator_;
  const rdma::AddressHandle& address_handle_;
  const rdma::QueuePairAddress target_;
};

}  // namespace tern
