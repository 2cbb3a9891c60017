// Loss: what becomes of a peer that a request failed for. See rdma_path.h.
#include <algorithm>

#include "base/assert.h"
#include "fabric/rdma/rdma_path.h"

namespace tern {

Error RdmaPath::reason(const Peer& peer) const {
  return Error(ErrorClass::proc_aborted, "rank " + std::to_string(peer.id) + " cannot be reached any more over RDMA (" +
                                             hca_->capabilities().device + "): " + peer.trouble);
}

// The first error tells why; what follows is flushed.
void RdmaPath::break_peer(Peer& peer, std::string trouble) {
  if (peer.state == PeerState::broken || peer.state == PeerState::lost) return;
  peer.state = PeerState::broken;
  peer.trouble = std::move(trouble);
  std::erase(greeted_, &peer);
  if (peer.pair) peer.pair->fail();
  broken_.push_back(&peer);
}

// A peer is lost when nothing is outstanding any more: until then the adapter may still touch the memory of operations.
int RdmaPath::bury_broken() {
  std::vector<Peer*> over;
  for (Peer* peer : broken_) {
    if (peer->outstanding == 0) over.push_back(peer);
  }
  for (Peer* peer : over) {
    std::erase(broken_, peer);
    lose(*peer);
  }
  return int(over.size());
}

void RdmaPath::lose(Peer& peer) {
  complete_finished();  // what had been copied counts as sent
  peer.state = PeerState::lost;
  if (peer.pair) by_number_.erase(peer.pair->number());
  peer.pair.reset();
  peer.route.reset();
  while (SendOperation* operation = peer.queue.pop_front()) {
    --queued_;
    operation->done(*operation, reason(peer));
  }
  if (tuples_) tuples_->lose(peer.id, reason(peer));
  // Those that are posted are here only when the adapter itself has failed: else they have come back.
  for (auto* list : {&peer.transfers, &peer.posted_transfers}) {
    while (Transfer* transfer = list->pop_front()) {
      transfer->failed = true;
      finish(*transfer);
    }
  }
  if (peer.reception.active) {
    peer.reception.active = false;
    sink_.on_landed(peer, peer.reception.header, peer.reception.landing, peer.reception.bytes, reason(peer));
  }
  sink_.on_peer_lost(peer, reason(peer));
}

void RdmaPath::give_up(Lane& lane) { break_peer(static_cast<Peer&>(lane), "given up for another path"); }

bool RdmaPath::reopen(Lane& lane, uint32_t incarnation) {
  auto& peer = static_cast<Peer&>(lane);
  if (peer.state != PeerState::lost || adapter_failed_) return false;
  TERN_ASSERT(peer.outstanding == 0 && peer.queue.empty());
  peer.state = PeerState::fresh;
  peer.incarnation = incarnation;
  peer.heard = true;
  peer.credits = peer.owed = peer.window = 0;
  peer.reception = {};
  peer.trouble.clear();
  return true;
}

void RdmaPath::take_events() {
  rdma::AsyncEvent event;
  while (hca_->take_event(event)) {
    if (event.kind == rdma::AsyncEventKind::queue_pair_error) {
      auto found = by_number_.find(event.number);
      PeerId owner = kNoPeer;
      if (found != by_number_.end()) {
        break_peer(*found->second, "the adapter reports an error of the connection");
      } else if (tuples_ && tuples_->owns(event.number, owner)) {
        break_peer(*peers_[owner], "the adapter reports an error of a tuple queue's connection");
      }
    } else if (event.kind == rdma::AsyncEventKind::fatal || event.kind == rdma::AsyncEventKind::completion_overrun) {
      lose_adapter();
      return;
    }
  }
}

// Nothing comes back from it any more, and it touches no memory any more.
void RdmaPath::lose_adapter() {
  adapter_failed_ = true;
  stashed_ = 0;
  keepalive_due_ns_ = ~uint64_t{0};
  for (auto& peer : peers_) {
    if (!peer) continue;
    if (peer->state == PeerState::lost) continue;
    if (peer->state != PeerState::broken) broken_.push_back(peer.get());
    peer->state = PeerState::broken;
    peer->trouble = "the adapter has failed";
    outstanding_ -= peer->outstanding;
    peer->outstanding = 0;
  }
  greeted_.clear();
}

}  // namespace tern
