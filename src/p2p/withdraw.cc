// Announcements taken back, by either side.
//
// A receive is cancelled that was announced, or before others that were: which message those will match would change.
// So the announcements are withdrawn first, and the receive stays posted meanwhile; what arrives for it completes it,
// as MPI allows.
//
//   receiver                    sender
//     cancel: withdraw ---------->  forgets its offers of the key
//     <--------------- withdrawn    (in its stream behind everything that used one of them)
//     still posted: cancelled
//
// A sender takes back a message that has not left: whatever it or the receiver has counted since is wrong.
//
//     <----------------- recount    counts from nought, in a new epoch; offers of the old one are void
#include "p2p/impl.h"

namespace tern {

// False: nothing is in the way of cancelling it now.
bool PointToPoint::Impl::withdraw(ReceiveRequest& receive) {
  if (receive.wild()) return false;
  Endpoint& peer = *receive.from;
  if (peer.lost() || peer.announced.open == 0) return false;
  bool binding = false;
  matching.visit_from(receive, [&](PostedReceive& posted) {
    binding |= (static_cast<ReceiveRequest&>(posted).marks & ReceiveRequest::kBinding) != 0;
  });
  if (!binding) return false;
  receive.marks |= ReceiveRequest::kCancelling;
  if (receive.token == 0) {
    receive.sender = nullptr;
    receive.token = receive_tokens.add(receive);
  }
  ++counters.withdrawn;
  control(peer, wire::make_header(wire::Kind::withdraw, 0, receive.context, receive.tag, receive.token));
  return true;
}

void PointToPoint::Impl::on_withdraw(Endpoint& peer, const wire::Header& header) {
  peer.messages.withdraw(header.context, header.tag);
  control(peer, wire::make_control_header(wire::Kind::withdrawn, header.token));
}

void PointToPoint::Impl::on_withdrawn(Endpoint& peer, const wire::Header& header) {
  if (!watched.empty()) check_watched();
  ReceiveRequest* receive = receive_tokens.find(header.token);
  if (!receive || receive->from != &peer || !(receive->marks & ReceiveRequest::kCancelling)) return;
  receive->marks &= uint8_t(~ReceiveRequest::kCancelling);
  if (!receive->posted) return;  // its message has come first
  matching.visit_from(*receive, [&](PostedReceive& posted) {
    static_cast<ReceiveRequest&>(posted).marks &= uint8_t(~ReceiveRequest::kBinding);
  });
  matching.unpost(*receive);
  receive->posted = false;
  receive->status = Status{kAnySource, kAnyTag, 0, true};
  complete(*receive);
}

void PointToPoint::Impl::recount(Endpoint& peer) {
  if (peer.properties().announce_from_bytes == 0) return;
  control(peer, wire::make_control_header(wire::Kind::recount, peer.messages.restart_sent()));
}

void PointToPoint::Impl::on_recount(Endpoint& peer, const wire::Header& header) {
  peer.messages.restart_arrived(header.token);
}

}  // namespace tern
