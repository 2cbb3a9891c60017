// DcEndpoint: a rank's dynamically connected queue pairs: a pool of initiators and as many targets, which feed the
// shared receive queue. The messages from rank j to rank i go from initiator to target (i + j) mod n, so that
// consecutive messages to different ranks do not wait for one initiator to disconnect, nor those of different ranks for
// one target (Takagi et al. 2015, sections 3.1 and 4.3). A stream that changes to a ring takes the initiator with the
// fewest of those streams, since the peers left to DC are not distributed evenly.
//
// A failed request puts its initiator into the error state, and requests posted there for other peers come back flushed
// although they are correct. An initiator finishes its requests to one target before it begins the next, so what was
// flushed behind the failure for another peer was never begun: it is posted again when everything has come back and the
// initiator has been reset.
//
// Thread rule: the rank's lock.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fabric/rdma/rdma_adapter.h"

namespace tern {

class RdmaArrivals;
class RdmaPeers;

class DcEndpoint {
 public:
  /// All outlive this.
  DcEndpoint(RdmaAdapter& adapter, RdmaPeers& peers, RdmaArrivals& arrivals)
      : adapter_(adapter), peers_(peers), arrivals_(arrivals) {}
  /// Error: the adapter has no DC, or not so many queue pairs.
  Error start(uint32_t initiators);
  /// The number of targets, the queue pairs that accept connections. A target holds a few connections at a time and
  /// refuses more, so the number grows with that of the ranks, up to 64. Up to 64 ranks there are as many targets as
  /// initiators, as in Takagi et al. 2015.
  static uint32_t targets_of(uint32_t initiators, uint32_t ranks);
  /// The target that this peer sends to.
  const rdma::QueuePairAddress& target_for(PeerId peer) const {
    return targets_[(peer + adapter_.options.peers->me()) % uint32_t(targets_.size())]->address();
  }

  /// The initiator with which a stream to that peer begins.
  uint32_t index(PeerId peer) const { return (peer + adapter_.options.peers->me()) % uint32_t(initiators_.size()); }
  /// The initiator for a stream into a ring; until `leave`.
  uint32_t join();
  void leave(uint32_t index) { --initiators_[index].streams; }
  bool room(const RdmaPeer& peer, uint32_t requests, uint32_t index) const;
  /// There is room. The memory that the request names must stay until its completion was reported.
  void post(RdmaPeer& peer, const rdma::WorkRequest& work, uint32_t index);
  /// A request for that peer completed, on whatever queue pair. False: it is not over but will be posted again.
  bool on_completion(const RdmaPeer& peer, const rdma::Completion& completion);
  /// The adapter has failed: no completion comes back.
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
    std::deque<Posted> again;   ///< flushed because of another request
    bool failed = false;
    uint32_t streams = 0;  ///< see `join`
  };
  void hand_over(Initiator& initiator, const Posted& item);
  void recover(Initiator& initiator);

  RdmaAdapter& adapter_;
  RdmaPeers& peers_;
  RdmaArrivals& arrivals_;
  std::vector<std::unique_ptr<rdma::QueuePair>> targets_;
  std::vector<Initiator> initiators_;
  std::unordered_map<uint32_t, uint32_t> by_number_;
};

}  // namespace tern
