// A send from the call to the path, and its completion.
#include "p2p/impl.h"
#include "p2p/tuples.h"

namespace tern {

namespace {
// Noncontiguous messages up to this size are packed on the stack and leave at once; larger ones are packed by the path
// piece by piece from the user's memory.
constexpr size_t kPackBytes = 4096;

Cursor cursor_of(const SendArguments& a) { return Cursor(const_cast<void*>(a.buffer), a.count, *a.type); }

// Packs on the stack; out of line so that contiguous sends have no large frame.
[[gnu::noinline]] bool leave_packed(Endpoint& to, const SendArguments& a, const wire::Header& header, size_t bytes) {
  std::byte packed[kPackBytes];
  cursor_of(a).pack(packed, bytes);
  return to.try_send_message(header, packed, bytes);
}

// The whole eager message, at once or not at all.
inline bool leave_now(Endpoint& to, const SendArguments& a, const wire::Header& header, size_t bytes) {
  if (a.type->is_contiguous()) return to.try_send_message(header, a.buffer, bytes);
  return bytes <= kPackBytes && leave_packed(to, a, header, bytes);
}

uint8_t flags_of(const SendArguments& a) { return a.requested ? wire::kRequested : 0; }

Ref<Datatype> hold(const Datatype* type) {
  return type->is_predefined() ? Ref<Datatype>() : Ref<Datatype>::share(const_cast<Datatype*>(type));
}
}  // namespace

Error PointToPoint::send(const SendArguments& a) {
  Endpoint& peer = impl_->endpoints.at(a.peer);
  size_t bytes = size_t(a.count) * a.type->size();
  if (int64_t(bytes) <= peer.blocking_limit() && a.mode != SendMode::synchronous && peer.credit.take(bytes)) {
    const uint16_t carried = peer.credit.carry();
    wire::Header header = wire::make_header(wire::Kind::eager, a.source, a.context, a.tag, 0, 0, carried);
    const uint64_t began_ns = impl_->trace_time();
    if (leave_now(peer, a, header, bytes)) {
      impl_->note_sent(Protocol::eager, a, bytes, began_ns);
      return {};
    }
    peer.credit.untake(bytes);  // isend takes it again
    peer.credit.uncarry(carried);
  }
  Request* request = impl_->make_send(peer, a, false, true);
  wait(*request);
  Error error = std::move(request->error);
  request->release();
  return error;
}

Request* PointToPoint::isend(const SendArguments& a) {
  Endpoint& peer = impl_->endpoints.at(a.peer);
  Request* sent = impl_->send_at_once(peer, a);
  return sent ? sent : impl_->make_send(peer, a, false);
}
Request* PointToPoint::send_init(const SendArguments& a) {
  return impl_->make_send(impl_->endpoints.at(a.peer), a, true);
}

// A nonblocking send whose eager message leaves at once; null: it does not.
Request* PointToPoint::Impl::send_at_once(Endpoint& peer, const SendArguments& a) {
  const size_t bytes = size_t(a.count) * a.type->size();
  if (int64_t(bytes) > peer.at_once_limit() || a.mode == SendMode::synchronous || !peer.credit.take(bytes))
    return nullptr;
  const uint32_t sequence = next_sequence();
  const uint16_t carried = peer.credit.carry();
  wire::Header header =
      wire::make_header(wire::Kind::eager, a.source, a.context, a.tag, sequence, flags_of(a), carried);
  const uint64_t began_ns = trace_time();
  if (!leave_now(peer, a, header, bytes)) {
    peer.credit.untake(bytes);
    peer.credit.uncarry(carried);
    return nullptr;
  }
  note_sent(Protocol::eager, a, bytes, began_ns);
  SentRequest* request = sent.take(*this);
  request->receiver = &peer;
  request->sequence = sequence;
  request->context = a.context;
  return request;
}

void SentRequest::destroy() {
  if (orphaned_ | (on_complete != nullptr) | status.cancelled) [[unlikely]] {
    PointToPoint::Impl& owner = impl;
    this->~SentRequest();
    new (this) SentRequest(owner);
  }
  handle = 0;
  impl.sent.give_back(this);
}

Request* PointToPoint::Impl::make_send(Endpoint& peer, const SendArguments& a, bool persistent, bool blocking) {
  SendRequest* send = sends.create(*this, peer, a);
  send->type = hold(a.type);
  if (persistent) {
    send->make_persistent();
  } else {
    begin(*send, blocking);
  }
  return send;
}

Error SendRequest::start() {
  restart();
  impl.begin(*this);
  return {};
}

void SendRequest::destroy() { impl.sends.destroy(this); }

void PointToPoint::Impl::begin(SendRequest& send, bool blocking) {
  const SendArguments& a = send.arguments;
  size_t bytes = size_t(a.count) * a.type->size();
  Endpoint& peer = send.endpoint;
  if (bytes > peer.eager_limit()) look_around();
  ++sends_open;
  send.waits = 0;
  send.sequence = 0;
  send.copy = 0;
  send.clear_pending = false;
  send.clear_offset = 0;
  if (peer.lost()) {
    fail(send, endpoints.loss_of(a.peer));
    return;
  }
  if (tuples && tuples->send(send, bytes)) return;
  if (goes_eagerly(bytes, peer.eager_limit(), peer.credit.covers(bytes))) {
    note_sent(Protocol::eager, a, bytes);
    begin_eager(send, bytes, blocking);
  } else {
    counts.without_credit += bytes <= peer.eager_limit();
    begin_large(send, bytes, blocking);
  }
}

void PointToPoint::Impl::trace_sent(Protocol protocol, const SendArguments& a, size_t bytes, uint64_t began_ns) {
  tracer->add(record::EventKind::send, began_ns ? began_ns : Recorder::now_ns(), 0, uint16_t(protocol), a.peer, a.tag,
              a.context, bytes);
}

void PointToPoint::Impl::begin_eager(SendRequest& send, size_t bytes, bool blocking) {
  const SendArguments& a = send.arguments;
  Endpoint& peer = send.endpoint;
  static_cast<void>(peer.credit.take(bytes));  // which was asked before
  wire::Header header =
      wire::make_header(wire::Kind::eager, a.source, a.context, a.tag, 0, flags_of(a), peer.credit.carry());
  if (a.mode == SendMode::synchronous) {
    send.token = send_tokens.add(send);
    send.waits |= SendRequest::kMatch;
    header.kind = wire::Kind::eager_sync;
    header.token = send.token;
  } else {
    send.sequence = header.token = next_sequence();
  }
  send.waits |= SendRequest::kPath;
  if (blocking || int64_t(bytes) <= peer.at_once_limit()) {  // else the path need not copy it
    if (leave_now(peer, a, header, bytes)) {
      settle(send, SendRequest::kPath);
      return;
    }
    ++counts.sends_queued;
  }
  queue(send, header, cursor_of(a));
}

// Hands the operation to the path; kPath is waited for until the path has taken all of it.
void PointToPoint::Impl::queue(SendRequest& send, const wire::Header& header, const Cursor& payload) {
  send.waits |= SendRequest::kPath;
  send.header = header;
  send.header_sent = false;
  send.payload = payload;
  send.done = [](SendOperation& op, Error e) {
    auto& request = static_cast<SendRequest&>(op);
    request.impl.path_done(request, std::move(e));
  };
  if (is_message(header)) send.endpoint.enqueue_message(send);
  else send.endpoint.enqueue(send);
}

// Sends a message of contiguous bytes for this request.
void PointToPoint::Impl::push(SendRequest& send, const wire::Header& header, const void* payload, size_t bytes) {
  if (send.endpoint.try_send_message(header, payload, bytes)) return;
  ++counts.sends_queued;
  queue(send, header, Cursor::bytes(const_cast<void*>(payload), bytes));
}

void PointToPoint::Impl::path_done(SendRequest& send, Error error) {
  if (error) {
    fail(send, std::move(error));
    return;
  }
  if (send.clear_pending && !send.error) {  // an error: the peer was lost meanwhile
    send.clear_pending = false;
    send.waits &= uint8_t(~SendRequest::kPath);
    send_data(send);
    return;
  }
  settle(send, SendRequest::kPath);
}

// One of the things this send waited for has happened; the last completes it.
void PointToPoint::Impl::settle(SendRequest& send, uint8_t waited) {
  send.waits &= uint8_t(~waited);
  if (send.waits != 0) return;
  if (send.token != 0) {
    send_tokens.remove(send.token);
    send.token = 0;
  }
  if (!send.exposed.empty()) {
    if (send.library) library_free.push_back(send.library);
    else send.endpoint.memory->conceal(send.exposed);
    send.exposed = {};
  }
  if (send.asked) [[unlikely]] {
    send.asked = false;
    --attention;
    update_chores();
  }
  if (send.deferred) [[unlikely]]
    forget_deferred(send);
  --sends_open;
  send.set_complete();
  progress.notify();
}

void PointToPoint::Impl::fail(SendRequest& send, Error error) {
  send.error = std::move(error);
  if (!send.library) send.exposed = {};  // the path is gone
  settle(send, uint8_t(~SendRequest::kPut));
}

void PointToPoint::Impl::control(Endpoint& to, const wire::Header& plain, const void* payload, size_t bytes) {
  if (to.lost()) return;  // its requests are completed with an error by on_peer_lost
  wire::Header header = plain;
  header.carried = carry_release(to);
  endpoints.post(to, header, payload, bytes);
}

SendRequest* PointToPoint::Impl::sender(Endpoint& from, uint32_t token) {
  SendRequest* send = send_tokens.find(token);
  return send && &send->endpoint == &from ? send : nullptr;
}

}  // namespace tern
