// A send from the call to its protocol.
#include <optional>
#include <string>

#include "base/stack_end.h"
#include "p2p/impl.h"
#include "p2p/tuples/tuples.h"

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

// Reads what is here, until the announcement of the message's receive is found or nothing is left. (A poll stops after
// some messages, and the receive may be the last of a thousand.)
void PointToPoint::Impl::look_for_receive(Endpoint& peer, const SendArguments& a) {
  constexpr int kMaxPolls = 64;  // of others' messages there may be more and more
  for (int polls = 0; polls < kMaxPolls; ++polls) {
    if (look_at(&peer) == 0 || !is_customised(policy.mode, peer.tuples) || peer.messages.find(a.context, a.tag)) return;
  }
}

void PointToPoint::Impl::begin(SendRequest& send, bool blocking) {
  const SendArguments& a = send.arguments;
  const size_t bytes = send.data_bytes();
  Endpoint& peer = send.endpoint;
  std::optional<RendezvousReceiver::Hold> hold;
  if (bytes > peer.eager_limit()) {
    hold.emplace(rendezvous_receiver);
    look_for_receive(peer, a);
  }
  sends.open(send);
  if (peer.lost()) {
    sends.fail(send, endpoints.loss_of(a.peer));
    return;
  }
  if (tuples && tuples->send(send, bytes)) return;
  if (goes_eagerly(bytes, peer.eager_limit(), peer.credit.covers(bytes))) {
    sends.note(Protocol::eager, peer, a, bytes);
    eager_sender.begin(send, blocking);
  } else {
    sends.counts().without_credit += bytes <= peer.eager_limit();
    begin_large(send, blocking);
  }
}

// To read there would end the program, though the receiver may want less.
[[gnu::cold]] static Error not_in_stack(size_t bytes, size_t behind) {
  return Error(ErrorClass::buffer, "the message has " + std::to_string(bytes) + " bytes, of which the last " +
                                       std::to_string(behind) +
                                       " are behind the end of this thread's stack. Is the count too large?");
}

void PointToPoint::Impl::begin_large(SendRequest& send, bool blocking) {
  const SendArguments& a = send.arguments;
  Endpoint& peer = send.endpoint;
  const size_t bytes = send.data_bytes();
  if (const size_t behind = a.type->is_contiguous() ? bytes_behind_stack(a.buffer, bytes) : 0) [[unlikely]] {
    sends.fail(send, not_in_stack(bytes, behind));
    return;
  }
  const Ready* ready = peer.messages.find(a.context, a.tag);
  const Protocol protocol = choice.choose(peer, a, bytes, ready, blocking);
  sends.note(protocol, peer, a, bytes);
  send.large = protocol != Protocol::eager;
  switch (protocol) {
    case Protocol::eager: eager_sender.begin(send, blocking); return;
    case Protocol::receiver_put: announced_sender.put(send, *ready); return;
    case Protocol::receiver_stream: announced_sender.stream(send); return;
    case Protocol::hybrid: hybrid.begin(send, blocking); return;
    default: rendezvous_sender.begin(send, protocol, ready); return;
  }
}

void PointToPoint::Impl::cancel(SendRequest& send) {
  if (!send.active() || (send.waits & SendRequest::kAnswer) || send.status.cancelled || send.error) return;
  if (send.endpoint.lost()) return;
  const auto* copy = std::get_if<SendRequest::HybridCopy>(&send.state);
  if (copy && copy->token != 0) hybrid.cancel(send, copy->token);
  else if (send.tuple()) tuples->cancel(send);
  else cancels.cancel(send);
}

}  // namespace tern
