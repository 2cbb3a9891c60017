// A long message between two ranks that both compute, over a path whose copies cost CPU time: whoever has time first
// makes the copy, and only one does. The sender knows of the posted receive, the receiver of the data; a claim
// (Path::claim) on the data decides between them.
//
//   receiver                    sender                      receiver                   sender
//     ready(address) ---------->                              ready(address) --------->
//     computes                    isend: rts(address)         computes                   isend: rts(address)
//                                 computes                                               computes
//     waits: claim, get           ...                                                    waits: claim, put
//     fin ----------------------> free                        has it <------------------ filled
//
// When both wait, the receiver asks for a stream (rendezvous.cc, `answer`), for which it looks a few times.
#include <algorithm>

#include "p2p/impl.h"

namespace tern {

// Before the announcement of this sender_get goes out; its memory is exposed.
void PointToPoint::Impl::defer(SendRequest& send, Peer& peer, size_t bytes, const Ready& ready) {
  const PathProperties& properties = peer.path->properties();
  const wire::ReadyBody& body = ready.body;
  if (!properties.claims || mode != RendezvousMode::customised || body.address == 0 || body.watched ||
      !peer.path->can_put(send.arguments.peer) || (send.exposed.words[0] | send.exposed.words[1]) == 0) {
    return;
  }
  peer.path->make_claim(send.exposed);
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
    const SendArguments& a = send.arguments;
    Path* path = peers[a.peer].path;
    constexpr uint8_t kBusy = SendRequest::kPath | SendRequest::kAnswer;
    if (!path || (send.waits & kBusy) || ++send.idle_polls < path->properties().idle_polls) {
      ++i;
      continue;
    }
    send.idle_polls = 0;
    if (path->attentive(a.peer)) {  // it will see the announcement
      ++i;
      continue;
    }
    const bool claimed = path->claim(kNoPeer, send.exposed);
    const wire::ClearBody to = send.clear;
    forget_deferred(send);  // another has taken its place in the list
    if (!claimed) continue;
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
