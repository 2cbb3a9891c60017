#include "p2p/protocols/deferred_copies.h"

namespace tern {

namespace {
/// So often the sender leaves the copy to a peer that is in its library. If that has not made it then, the receive is
/// not posted. (Some 16 us over shared memory.)
constexpr uint32_t kPatience = 8;
}  // namespace

void DeferredCopy::leave() { owner->remove(*this); }

void DeferredCopies::add(SendRequest& send, RendezvousSend& state, const wire::ClearBody& to) {
  DeferredCopy& copy = state.deferred;
  // Without a lock both might copy.
  if (!state.copy_lock || to.address == 0 || !send.endpoint.can_put()) return;
  if (copy.owner && copy.to.address != 0) return;
  copy.to = to;
  if (!copy.owner) append(send, copy);
}

void DeferredCopies::add_unmatched(SendRequest& send, RendezvousSend& state) {
  if (!state.copy_lock || state.deferred.owner || !CopyOut::fits(send)) return;
  state.deferred.to = {};
  append(send, state.deferred);
}

void DeferredCopies::append(SendRequest& send, DeferredCopy& copy) {
  copy.idle_polls = copy.looks = 0;
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
  const bool unmatched = copy.to.address == 0;
  if (unmatched && !progress_.polling()) return Turn::mine;
  if (!peer.peer_is_polling()) return Turn::mine;
  return unmatched && ++copy.looks == kPatience ? Turn::mine : Turn::peers;
}

int DeferredCopies::advance() {
  int done = 0;
  for (DeferredCopy* copy = copies_.front(); copy; copy = cursor_) {
    cursor_ = copies_.next(copy);
    const Turn turn = turn_of(*copy);
    // The peer may go off computing without having copied: this rank must not sleep yet.
    if (turn == Turn::peers && !progress_.polling()) ++done;
    if (turn != Turn::mine) continue;
    done += make(*copy->send, *copy);
  }
  cursor_ = nullptr;
  return done;
}

// True: the send has got on.
bool DeferredCopies::make(SendRequest& send, DeferredCopy& copy) {
  if (copy.to.address == 0) {
    const CopyOut::Result result = copy_out_.begin(send);  // ends `copy`, if it copies
    if (result == CopyOut::Result::taken) remove(copy);
    return result == CopyOut::Result::copied;
  }
  const bool locked = send.endpoint.arbiter->try_lock_copy(nullptr, send.rendezvous()->exposed.key());
  const wire::ClearBody to = copy.to;
  remove(copy);
  if (!locked) return false;
  send.waits &= uint8_t(~SendRequest::kData);
  if (!puts_.begin(send, to, wire::kLanded)) sends_.stream(send, to.receiver_token, size_t(to.bytes), 0);
  return true;
}

}  // namespace tern
