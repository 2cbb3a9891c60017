// Loss: what happens to a peer after a failed request. See rdma_path.h.
#include <utility>
#include <vector>

#include "base/assert.h"
#include "fabric/rdma/rdma_path.h"

namespace tern {

using State = RdmaPeer::State;

Error RdmaPath::reason(const RdmaPeer& peer) const {
  return Error(ErrorClass::proc_aborted, "rank " + std::to_string(peer.id) + " cannot be reached any more over RDMA (" +
                                             hca().capabilities().device + "): " + peer.trouble);
}

// The first error gives the reason; later ones are flushed.
void RdmaPath::break_peer(RdmaPeer& peer, std::string trouble) {
  if (peer.state == State::broken || peer.state == State::lost) return;
  peer.state = State::broken;
  peer.trouble = std::move(trouble);
  connections_.stop_greeting(peer);
  if (peer.connection.pair) peer.connection.pair->fail();
  broken_.push_back(&peer);
}

// A peer is lost when nothing is outstanding any more: until then the adapter may still touch the memory of operations.
int RdmaPath::bury_broken() {
  std::vector<RdmaPeer*> over;
  for (RdmaPeer* peer : broken_) {
    if (peer->outstanding == 0) over.push_back(peer);
  }
  for (RdmaPeer* peer : over) {
    std::erase(broken_, peer);
    lose(*peer);
  }
  return int(over.size());
}

void RdmaPath::lose(RdmaPeer& peer) {
  streams_.complete();  // what had been copied counts as sent
  memory_.complete();
  peer.state = State::lost;
  connections_.close(peer);
  if (tuples_) tuples_->lose(peer.id, reason(peer));
  transfers_.fail_all(peer);
  switches_.forget(peer);
  streams_.fail_all(peer);
  if (ud_) ud_->forget(peer);
  if (xrc_) xrc_->forget(peer);
  if (!table_.is_me(peer)) sink_.on_peer_lost(peer, reason(peer));
}

void RdmaPath::give_up(Lane& lane) { break_peer(static_cast<RdmaPeer&>(lane), "given up for another path"); }

bool RdmaPath::reopen(Lane& lane, uint32_t incarnation) {
  auto& peer = static_cast<RdmaPeer&>(lane);
  if (peer.state != State::lost || adapter_.failed()) return false;
  TERN_ASSERT(peer.outstanding == 0);
  peer.state = State::fresh;
  peer.incarnation = incarnation;
  peer.heard = true;
  peer.trouble.clear();
  streams_.reset(peer);
  if (tuples_) tuples_->reopen(peer.id);
  return true;
}

void RdmaPath::take_events() {
  rdma::AsyncEvent event;
  while (adapter_.hca->take_event(event)) {
    if (event.kind == rdma::AsyncEventKind::queue_pair_error) {
      if (RdmaPeer* peer = connections_.by_number(event.number))
        break_peer(*peer, "the adapter reports an error of the connection");
      else if (ud_ && event.number == ud_->number()) ud_->on_failure();
      else if (tuples_) tuples_->on_pair_error(event.number);
    } else if (event.kind == rdma::AsyncEventKind::fatal || event.kind == rdma::AsyncEventKind::completion_overrun) {
      lose_adapter();
      return;
    }
  }
}

// The adapter returns nothing any more, and touches no memory any more.
void RdmaPath::lose_adapter() {
  adapter_.fail();
  table_.each([this](RdmaPeer& peer) {
    if (peer.state == State::lost) return;
    if (peer.state != State::broken) broken_.push_back(&peer);
    peer.state = State::broken;
    peer.trouble = "the adapter has failed";
    adapter_.forget(peer);
  });
  if (dc_) dc_->forget_all();
  connections_.close_all_greetings();
}

}  // namespace tern
