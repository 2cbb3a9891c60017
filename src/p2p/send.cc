// A send from the call to its protocol.
#include <optional>
#include <string>

#include "base/stack_end.h"
#include "p2p/impl.h"
#include "p2p/protocols/table.h"

namespace tern {

Error PointToPoint::send(const SendArguments& a) {
  Endpoint& peer = impl_->endpoints.at(a.peer);
  if (impl_->eager_sender.send(peer, a)) return {};
  SendRequest& send = impl_->sends.create(peer, a);
  impl_->begin(send, true);
  wait(send);
  Error error = std::move(send.error);
  send.release();
  return error;
}

bool PointToPoint::send_shortly(const SendArguments& a) {
  Endpoint* peer = impl_->endpoint_for_short(a);
  return peer && impl_->eager_sender.send(*peer, a);
}

Request* PointToPoint::isend_shortly(const SendArguments& a) {
  Endpoint* peer = impl_->endpoint_for_short(a);
  return peer ? impl_->eager_sender.send_at_once(*peer, a) : nullptr;
}

// Null: the message needs the rank, to make a connection at least.
Endpoint* PointToPoint::Impl::endpoint_for_short(const SendArguments& a) {
  Endpoint* peer = endpoints.find(a.peer);
  return peer && peer->may_send_shortly(size_t(a.count) * a.type->size()) ? peer : nullptr;
}

Request* PointToPoint::isend(const SendArguments& a) {
  Endpoint& peer = impl_->endpoints.at(a.peer);
  if (Request* sent = impl_->eager_sender.send_at_once(peer, a)) return sent;
  SendRequest& send = impl_->sends.create(peer, a);
  impl_->begin(send, false);
  return &send;
}

Request* PointToPoint::send_init(const SendArguments& a) {
  SendRequest& send = impl_->sends.create(impl_->endpoints.at(a.peer), a);
  send.make_persistent();
  return &send;
}

// Reads what is here, until the announcement of the message's receive is found or nothing is left; null: there is none.
// (A poll stops after some messages, and the receive may be the last of a thousand.)
const Ready* PointToPoint::Impl::look_for_receive(Endpoint& peer, const SendArguments& a) {
  constexpr int kMaxPolls = 64;  // of others' messages there may be more and more
  for (int polls = 1;; ++polls) {
    const bool more = look_at(&peer) != 0;
    const Ready* ready = peer.messages.find(a.context, a.tag);
    if (ready || !more || polls == kMaxPolls || !is_customised(policy.mode, peer.tuples)) return ready;
  }
}

// To read there would end the program, though the receiver may want less.
[[gnu::cold]] static Error not_in_stack(size_t bytes, size_t behind) {
  return Error(ErrorClass::buffer, "the message has " + std::to_string(bytes) + " bytes, of which the last " +
                                       std::to_string(behind) +
                                       " are behind the end of this thread's stack. Is the count too large?");
}

void PointToPoint::Impl::begin(SendRequest& send, bool blocking) {
  const SendArguments& a = send.arguments;
  const size_t bytes = send.data_bytes();
  Endpoint& peer = send.endpoint;
  std::optional<RendezvousReceiver::Hold> hold;
  const Ready* ready = nullptr;
  const bool large = bytes > peer.eager_limit();
  if (large) {
    hold.emplace(rendezvous_receiver);
    ready = look_for_receive(peer, a);
  }
  sends.open(send);
  if (peer.lost()) {
    sends.fail(send, endpoints.loss_of(a.peer));
    return;
  }
  SendSituation s = ProtocolChoice::begin(peer, bytes, blocking);
  if (!goes_eagerly(s)) {
    if (const size_t behind = a.type->is_contiguous() ? bytes_behind_stack(a.buffer, bytes) : 0) [[unlikely]] {
      sends.fail(send, not_in_stack(bytes, behind));
      return;
    }
    if (!large) ready = peer.messages.find(a.context, a.tag);
    choice.complete(s, peer, a, ready);
    send.stream_faster = s.stream_faster;
  }
  choose_protocol(s, [&](const ProtocolRecord& row) {
    send.protocol = row.protocol;
    send.large = row.protocol != Protocol::eager;
    return row.begin(*this, send, s);
  });
}

void PointToPoint::Impl::cancel(SendRequest& send) {
  if (!send.active() || (send.waits & SendRequest::kAnswer) || send.status.cancelled || send.error) return;
  if (!send.endpoint.lost()) record_of(send.protocol).withdraw(*this, send);
}

}  // namespace tern
