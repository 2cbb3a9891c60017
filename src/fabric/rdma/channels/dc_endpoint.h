// DcEndpoint: a rank's dynamically connected queue pairs: a target, which feeds the shared receive queue, and a pool of
// initiators. The messages from rank j to rank i take initiator (i + j) mod n, so that messages to different ranks one
// after the other do not wait for one initiator to disconnect (Takagi et al. 2015, section 3.1).
//
// A request that fails takes its initiator to the error state, and what is posted there for other peers comes back
// flushed though nothing is wrong with them. An initiator finishes its requests to one target before it turns to the
// next, so what was flushed behind the failure for another peer was never begun: it is posted again when everything has
// come back and the initiator has been reset.
//
// Thread rule: the rank's lock.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "fabric/rdma/rdma_adapter.h"

namespace tern {

class RdmaPeers;

class DcEndpoint {
 public:
  /// Both outlive this.
  DcEndpoint(RdmaAdapter& adapter, RdmaPeers& peers) : adapter_(adapter), peers_(peers) {}
  /// Error: the adapter has no DC, or not so many queue pairs.
  Error start(uint32_t initiators);
  /// What peers send to.
  const rdma::QueuePairAddress& target() const { return target_->address(); }

  bool room(const RdmaPeer& peer, uint32_t requests) const;
  /// There is room. The memory that the request names stays until its completion was reported.
  void post(RdmaPeer& peer, const rdma::WorkRequest& work);
  /// Of a request for that peer, on whatever queue pair. False: it is not over but will be posted again.
  bool on_completion(const RdmaPeer& peer, const rdma::Completion& completion);
  /// The adapter has failed: nothing comes back.
  void forget_all();

 private:
  struct Posted {
    rdma::WorkRequest work;
    rdma::Piece piece;
    PeerId peer;
  };
  struct Initiator {
    std::unique_ptr<rdma::QueuePair> pair;
    std::deque<Posted> posted;  ///< oldest first
    std::deque<Posted> again;   ///< flushed through no fault of theirs
    bool failed = false;
  };
  Initiator& of(PeerId peer) { return initiators_[(peer + adapter_.options.peers->me()) % initiators_.size()]; }
  const Initiator& of(PeerId peer) const { return const_cast<DcEndpoint*>(this)->of(peer); }
  void hand_over(Initiator& initiator, const Posted& item);
  void recover(Initiator& initiator);

  RdmaAdapter& adapter_;
  RdmaPeers& peers_;
  std::unique_ptr<rdma::QueuePair> target_;
  std::vector<Initiator> initiators_;
};

}  // namespace tern
