#include "p2p/protocols/deferred_copies.h"

namespace tern {

#include "base/assert.h"

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
  TERN_ASSERT(!copy.owner && send.rendezvous() && send.rendezvous()->copy_lock);
  copy.idle_polls = copy.looks = 0;
  copy.send = &send;
  copy.owner = this;
  copies_.push_back(&copy);
  want(true);
}

void DeferredCopies::remove(DeferredCopy& copy) {
  TERN_ASSERT(copy.owner == this);
  if (cursor_ == &copy) cursor_ = copies_.next(&copy);
  IntrusiveList<DeferredCopy>::remove(&copy);
  copy.owner = nullptr;
  want(!copies_.empty());
}

// This rank has had nothing to do for some polls, or is about to sleep.
bool DeferredCopies::is_due(DeferredCopy& copy) const {
  const SendRequest& send = *copy.send;
  constexpr uint8_t kBusy = SendRequest::kPath | SendRequest::kAnswer;
  if (send.endpoint.lost() || (send.waits & kBusy)) return false;
  const bool due = !progress_.polling() ||  // outside of a poll it is about to sleep: nobody might wake it
                   ++copy.idle_polls >= send.endpoint.arbiter->arbiter_properties().idle_polls;
  if (due) copy.idle_polls = 0;
  return due;
}

// A receiver that is in its library sees the announcement itself, if its receive is posted.
Mover DeferredCopies::mover_of(DeferredCopy& copy) const {
  CopySituation s{.side = CopySide::sender, .idle = true};
  s.can_put = copy.to.address != 0;
  s.patient = s.can_put || (progress_.polling() && copy.looks + 1 < kPatience);
  const Mover mover = who_copies(s, [&] { return copy.send->endpoint.peer_is_polling(); });
  if (mover == Mover::defer) ++copy.looks;
  return mover;
}

int DeferredCopies::advance() {
  int done = 0;
  for (DeferredCopy* copy = copies_.front(); copy; copy = cursor_) {
    cursor_ = copies_.next(copy);
    if (!is_due(*copy)) continue;
    const Mover mover = mover_of(*copy);
    // The peer may go off computing without having copied: this rank must not sleep yet.
    if (mover == Mover::defer) done += !progress_.polling();
    else if (mover == Mover::put) done += put(*copy->send, *copy);
    else done += copy_out(*copy->send, *copy);
  }
  cursor_ = nullptr;
  return done;
}

// True: the send has got on.
bool DeferredCopies::copy_out(SendRequest& send, DeferredCopy& copy) {
  const CopyOut::Result result = copy_out_.begin(send);  // ends `copy`, if it copies
  if (result == CopyOut::Result::taken) remove(copy);
  return result == CopyOut::Result::copied;
}

// True: the send has got on.
bool DeferredCopies::put(SendRequest& send, DeferredCopy& copy) {
  const bool locked = send.endpoint.arbiter->try_lock_copy(nullptr, send.rendezvous()->exposed.key());
  const wire::ClearBody to = copy.to;
  remove(copy);
  if (!locked) return false;
  send.waits &= uint8_t(~SendRequest::kData);
  if (!puts_.begin(send, to, wire::kLanded)) sends_.stream(send, to.receiver_token, size_t(to.bytes), 0);
  return true;
}

}  // namespace tern
