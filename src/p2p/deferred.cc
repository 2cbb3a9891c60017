// A long message between two ranks that both compute, over a path whose copies cost CPU time: whoever has time first
// makes the copy, and only one does. The sender knows of the posted receive, the receiver of the data; a lock on
// the data (CopyArbiter::try_lock_copy) decides between them.
//
//   receiver                    sender                      receiver                   sender
//     ready(address) ---------->                              ready(address) --------->
//     computes                    isend: rts(address)         computes                   isend: rts(address)
//                                 computes                                               computes
//     waits: lock, get            ...                                                    waits: lock, put
//     fin ----------------------> free                        has it <------------------ filled
//
// When both wait, the receiver asks for a stream (rendezvous.cc, `answer`), for which it looks a few times.
#include <algorithm>

#include "p2p/impl.h"

namespace tern {

// Before the announcement of this sender_get goes out; its memory is exposed.
void PointToPoint::Impl::defer(SendRequest& send, size_t bytes, const Ready& ready) {
  Endpoint& peer = send.endpoint;
  const wire::ReadyBody& body = ready.body;
  if (!peer.copy_locks() || mode != RendezvousMode::customised || body.address == 0 || body.watched ||
      !peer.can_put() || send.exposed.empty()) {
    return;
  }
  peer.arbiter->add_copy_lock(send.exposed);
  send.clear = wire::ClearBody{
      ready.token, 0, std::min<uint64_t>(bytes, body.capacity), body.address, {body.key[0], body.key[1]}};
  send.idle_polls = 0;
  send.deferred = true;
  deferred.push_back(&send);
  update_chores();
}

int PointToPoint::Impl::advance_deferred() {
  int done = 0;
  for (size_t i = 0; i < deferred.size();) {
    SendRequest& send = *deferred[i];
    Endpoint& peer = send.endpoint;
    constexpr uint8_t kBusy = SendRequest::kPath | SendRequest::kAnswer;
    if (peer.lost() || (send.waits & kBusy) || ++send.idle_polls < peer.arbiter->arbiter_properties().idle_polls) {
      ++i;
      continue;
    }
    send.idle_polls = 0;
    if (peer.peer_is_polling()) {  // it will see the announcement
      ++i;
      continue;
    }
    const bool locked = peer.arbiter->try_lock_copy(nullptr, send.exposed);
    const wire::ClearBody to = send.clear;
    forget_deferred(send);  // another has taken its place in the list
    if (!locked) continue;
    ++done;
    send.waits &= uint8_t(~SendRequest::kData);
    if (!put(send, to, send.body.bytes, wire::kLanded, false))
      stream_rest(send, to.receiver_token, size_t(to.bytes), 0);
  }
  return done;
}

void PointToPoint::Impl::forget_deferred(SendRequest& send) {
  send.deferred = false;
  std::erase(deferred, &send);
  update_chores();
}

}  // namespace tern
