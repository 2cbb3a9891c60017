#include "p2p/deferred_copies.h"

namespace tern {

void DeferredCopy::leave() { owner->remove(*this); }

void DeferredCopies::add(SendRequest& send, RendezvousSend& state, const wire::ClearBody& to) {
  // Without a lock both might copy.
  if (!state.copy_lock || state.deferred.owner || to.address == 0 || !send.endpoint.can_put()) return;
  DeferredCopy& copy = state.deferred;
  copy.to = to;
  copy.idle_polls = 0;
  copy.send = &send;
  copy.owner = this;
  copies_.push_back(&copy);
  want(true);
}

void DeferredCopies::remove(DeferredCopy& copy) {
  if (cursor_ == &copy) cursor_ = copies_.next(&copy);
  IntrusiveList<DeferredCopy>::remove(&copy);
  copy.owner = nullptr;
  want(!copies_.empty());
}

// This rank has time, and the receiver is not there to see the announcement.
DeferredCopies::Turn DeferredCopies::turn_of(DeferredCopy& copy) {
  SendRequest& send = *copy.send;
  Endpoint& peer = send.endpoint;
  constexpr uint8_t kBusy = SendRequest::kPath | SendRequest::kAnswer;
  if (peer.lost() || (send.waits & kBusy)) return Turn::later;
  // Outside of a poll this rank is about to sleep: nobody might wake it.
  if (progress_.polling() && ++copy.idle_polls < peer.arbiter->arbiter_properties().idle_polls) return Turn::later;
  copy.idle_polls = 0;
  return peer.peer_is_polling() ? Turn::peers : Turn::mine;
}

int DeferredCopies::advance() {
  int done = 0;
  for (DeferredCopy* copy = copies_.front(); copy; copy = cursor_) {
    cursor_ = copies_.next(copy);
    const Turn turn = turn_of(*copy);
    // The peer may go off computing without having copied: this rank must not sleep yet.
    if (turn == Turn::peers && !progress_.polling()) ++done;
    if (turn != Turn::mine) continue;
    SendRequest& send = *copy->send;
    const bool locked = send.endpoint.arbiter->try_lock_copy(nullptr, send.rendezvous()->exposed.key());
    const wire::ClearBody to = copy->to;
    remove(*copy);
    if (!locked) continue;
    ++done;
    send.waits &= uint8_t(~SendRequest::kData);
    if (!puts_.begin(send, to, wire::kLanded)) sends_.stream(send, to.receiver_token, size_t(to.bytes), 0);
  }
  cursor_ = nullptr;
  return done;
}

}  // namespace tern
