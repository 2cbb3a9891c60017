#include "p2p/deferred_copies.h"

namespace tern {

DeferredCopy::~DeferredCopy() {
  if (owner) owner->remove(*this);
}

void DeferredCopies::add(SendRequest& send, RendezvousSend& state, const Ready& ready) {
  Endpoint& peer = send.endpoint;
  const wire::ReadyBody& body = ready.body;
  if (!peer.copy_locks() || body.address == 0 || body.watched || !peer.can_put() || state.exposed.empty()) return;
  if (!state.exposed.add_copy_lock()) return;  // both might copy
  DeferredCopy& copy = state.deferred;
  copy.to = ready.clear_for(send.data_bytes());
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
bool DeferredCopies::ready_to_copy(DeferredCopy& copy) {
  SendRequest& send = *copy.send;
  Endpoint& peer = send.endpoint;
  constexpr uint8_t kBusy = SendRequest::kPath | SendRequest::kAnswer;
  if (peer.lost() || (send.waits & kBusy) || ++copy.idle_polls < peer.arbiter->arbiter_properties().idle_polls)
    return false;
  copy.idle_polls = 0;
  return !peer.peer_is_polling();
}

int DeferredCopies::advance() {
  int done = 0;
  for (DeferredCopy* copy = copies_.front(); copy; copy = cursor_) {
    cursor_ = copies_.next(copy);
    if (!ready_to_copy(*copy)) continue;
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
