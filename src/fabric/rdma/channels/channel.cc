#include "fabric/rdma/channels/channel.h"

#include "fabric/rdma/rdma_peer.h"

namespace tern {

// An empty write: the peer's adapter answers it, whether its rank computes or not.
void Channel::probe(RdmaPeer& peer) {
  rdma::WorkRequest work;
  work.verb = rdma::Verb::write;
  work.id = RdmaAdapter::id_of(RdmaTag::inlined, peer.id);
  post(peer, work);
}

}  // namespace tern
