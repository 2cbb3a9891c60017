#include "p2p/protocols/hybrid.h"

#include <cstring>

#include "base/assert.h"
#include "datatype/kind.h"

namespace tern {

bool HybridSender::begin(SendRequest& send, const SendSituation& s) {
  const SendArguments a = send.arguments;
  Endpoint& peer = send.endpoint;
  LibraryBuffers::Loan buffer = buffers_.borrow(peer);
  if (!buffer) {
    ++counters_.no_buffer;
    return false;
  }
  TERN_ASSERT(s.bytes <= peer.properties().hybrid_bytes);
  sends_.note(Protocol::hybrid, peer, a, s.bytes);
  send.data().pack(buffer.memory(), s.bytes);
  progress_.clock().charge_copy(s.bytes);
  // Its announcement may have come meanwhile. But a tuple queue must not begin between the decision that this message
  // does not take it and the message's own announcement.
  if (!progress_.polling() && !peer.tuples) progress_.poll();
  if (peer.lost()) {
    sends_.fail(send, endpoints_.loss_of(a.peer));
    return true;
  }
  SendRequest& own = send_copy(a, peer, std::move(buffer), s);
  send.state = SendRequest::HybridCopy{own.token};
  if (own.waits & SendRequest::kPath) {
    // The path had no room: what it still has to be given leaves in this rank's polls, so the sender is not free yet.
    own.watcher = &send;
    own.on_complete = copy_has_left;
  } else {
    sends_.settle(send, 0);
  }
  own.release();  // destroys itself when it completes
  return true;
}

void HybridSender::copy_has_left(Request& own) {
  auto& send = *static_cast<SendRequest*>(own.watcher);
  send.error = std::move(own.error);
  send.status.cancelled = own.status.cancelled;
  send.sends.settle(send, 0);
}

// Its token is 0 when it cannot be taken back.
SendRequest& HybridSender::send_copy(const SendArguments& a, Endpoint& peer, LibraryBuffers::Loan buffer,
                                     const SendSituation& s) {
  if (!types_) types_ = std::make_unique<PredefinedTypes>();
  SendArguments copied = a;
  copied.buffer = buffer.memory();
  copied.count = Count(s.bytes);
  copied.type = &types_->get(type_id::kByte);
  copied.attended = copied.requested = false;
  SendRequest& own = sends_.create(peer, copied);
  sends_.open(own);
  own.protocol = Protocol::hybrid;
  SendSituation its = ProtocolChoice::begin(peer, s.bytes, s.blocking);
  if (const Ready* ready = peer.messages.find(a.context, a.tag)) choice_.complete(its, peer, copied, ready);
  own.stream_faster = its.stream_faster;
  if (!its.ready || its.mover == Mover::defer) {
    rendezvous_.begin(own, std::move(buffer));
    return own;
  }
  const Ready ready = *its.ready;
  sends_.begin_rendezvous(own, rendezvous_).buffer = std::move(buffer);  // given back with the request's state
  if (its.mover == Mover::put) announced_.put(own, ready);
  else announced_.stream(own);
  return own;
}

void HybridSender::cancel(SendRequest& send, uint32_t copy_token) {
  if (copy_token == 0) return;
  SendRequest* own = sends_.find(send.endpoint, copy_token);
  const SendArguments& a = send.arguments;
  const bool found = own && own->from_library() && own->arguments.tag == a.tag && own->arguments.context == a.context;
  if (!found) return;  // received
  if (!send.complete()) {
    if (own->on_complete == copy_has_left) own->cancel();  // else it was asked already
    return;
  }
  own->watcher = &send;
  own->on_complete = [](Request& asked) {
    auto& copied = *static_cast<SendRequest*>(asked.watcher);
    copied.status.cancelled = asked.status.cancelled;
    copied.set_complete();
  };
  sends_.reopen_uncounted(send);
  own->cancel();
}

void HybridSender::released(Endpoint& peer, uint16_t name) {
  if (name == 0) return;
  SendRequest* send = sends_.find_short(peer, uint16_t(name - 1));
  if (send && send->from_library() && (send->waits & SendRequest::kData)) sends_.settle(*send, SendRequest::kData);
}

void HybridSender::on_release(Endpoint& peer, const std::byte* payload, size_t bytes) {
  for (size_t at = 0; at + sizeof(uint16_t) <= bytes; at += sizeof(uint16_t)) {
    uint16_t name;
    std::memcpy(&name, payload + at, sizeof name);
    released(peer, name);
  }
}

}  // namespace tern
