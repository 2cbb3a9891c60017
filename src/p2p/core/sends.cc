#include "p2p/core/sends.h"

namespace tern {

Error SendRequest::start() {
  restart();
  sends.actions().begin(*this);
  return {};
}

void SendRequest::cancel() { sends.actions().cancel(*this); }
void SendRequest::destroy() { sends.destroy(*this); }
void SentRequest::cancel() { sends.actions().cancel(*this); }

void SentRequest::destroy() {
  if (orphaned_ | (on_complete != nullptr) | status.cancelled) [[unlikely]] {
    Sends& owner = sends;
    this->~SentRequest();
    new (this) SentRequest(owner);
  }
  handle = 0;
  sends.recycle(*this);
}

SendRequest& Sends::create(Endpoint& peer, const SendArguments& a) {
  SendRequest* send = requests_.create(*this, peer, a);
  if (a.type && !a.type->is_predefined()) send->type = Ref<Datatype>::share(const_cast<Datatype*>(a.type));
  return *send;
}

void Sends::enqueue(SendRequest& send, const wire::Header& header, const Cursor& payload, Left left) {
  TERN_ASSERT(!send.linked());  // the path would hold it twice
  send.waits |= SendRequest::kPath;
  send.header = header;
  send.header_sent = false;
  send.payload = payload;
  send.done = left;
  if (is_message(header)) send.endpoint.enqueue_message(send);
  else send.endpoint.enqueue(send);
}

void Sends::push(SendRequest& send, const wire::Header& header, const void* payload, size_t bytes, Left left) {
  TERN_DEBUG_ASSERT(bytes <= kAlwaysWholeBytes);
  if (send.endpoint.try_post(header, payload, bytes)) return;
  ++counts_.sends_queued;
  enqueue(send, header, Cursor::bytes(const_cast<void*>(payload), bytes), left);
}

void Sends::stream(SendRequest& send, uint32_t receiver_token, size_t end, size_t offset) {
  Cursor payload = send.data();
  payload.truncate(end);
  payload.skip(offset);
  enqueue(send, wire::make_header(wire::Kind::data, 0, offset, 0, receiver_token), payload);
}

void Sends::settle_path(SendOperation& operation, Error error) {
  auto& send = static_cast<SendRequest&>(operation);
  if (error) send.sends.fail(send, std::move(error));
  else send.sends.settle(send, SendRequest::kPath);
}

void Sends::complete(SendRequest& send) {
  if (send.token != 0) {
    tokens_.remove(send.token);
    send.token = 0;
  }
  if (counts_.watched != 0) [[unlikely]]
    watch_complete(send);
  if (send.rendezvous()) end_rendezvous(send);
  TERN_DEBUG_ASSERT(open_ != 0 && !send.complete());
  --open_;
  send.set_complete();
  progress_.notify();
}

void Sends::fail(SendRequest& send, Error error) {
  send.error = std::move(error);
  if (RendezvousSend* rendezvous = send.rendezvous()) rendezvous->exposed.forget();
  settle(send, uint8_t(~SendRequest::kPut));
}

void Sends::watch_send(Protocol protocol, const Endpoint& to, const SendArguments& a, size_t bytes, uint64_t began_ns) {
  if (tracer_)
    tracer_->add_send(began_ns, uint16_t(protocol), to.properties().name, to.eager_limit(), a.peer, a.tag, a.context,
                      bytes);
  if (protocol != Protocol::eager)
    counts_.tell(Event::rendezvous_begun, {int32_t(a.peer), a.tag, int64_t(protocol), int64_t(bytes)});
}

void Sends::watch_complete(const SendRequest& send) {
  if (send.from_library()) return;  // a copy; the program's request has ended before
  const SendArguments& a = send.arguments;
  if (send.large) counts_.tell(Event::rendezvous_done, {int32_t(a.peer), a.tag, int64_t(a.context)});
  counts_.tell(Event::request_completed, {int32_t(a.peer), a.tag});
}

}  // namespace tern
