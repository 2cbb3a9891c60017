// Receives: posting, delivery into the user's buffer, probes.
#include <algorithm>

#include "base/copy.h"
#include "base/hints.h"
#include "p2p/impl.h"
#include "p2p/tuples.h"

namespace tern {

namespace {
/// How often receive_at_once looks for its message: about 1.5 us, some times what a small one takes.
constexpr uint32_t kDirectLooks = 128;
}  // namespace

Error PointToPoint::Impl::truncation(const wire::Header& header, size_t bytes, size_t capacity) {
  return Error(ErrorClass::truncate, "the message from rank " + std::to_string(header.source) + " with tag " +
                                         std::to_string(header.tag) + " has " + std::to_string(bytes) +
                                         " bytes, but the receive buffer holds " + std::to_string(capacity));
}

void PointToPoint::Impl::begin(ReceiveRequest& receive) {
  ++receives_open;
  const bool large = receive.capacity() >= announce_from;
  if (large) [[unlikely]] {
    if (tuples && tuples->hold_back(receive)) return;
    if (!tuples) look_around();  // perhaps its message is here already
  }
  if (WaitingMessage* waiting = matching.find_waiting(receive.context, receive.source, receive.tag)) {
    auto& message = static_cast<UnexpectedMessage&>(*waiting);
    unwait(message);
    take(receive, message);
    return;
  }
  if (receive.from && receive.from->lost()) [[unlikely]] {
    refuse_lost(receive);
    return;
  }
  receive.posted = true;
  matching.post(receive);
  if (large && !receive.wild()) [[unlikely]] {
    if (tuples) tuples->posted(receive);
    else announce(receive);
  }
}

Error PointToPoint::receive(const ReceiveArguments& a, Status& status) {
  if (impl_->receive_at_once(a, status)) return {};
  ReceiveRequest* request = impl_->make_receive(a);
  request->stays = true;
  impl_->begin(*request);
  wait(*request);
  status = request->status;
  Error error = std::move(request->error);
  request->release();
  return error;
}

Request* PointToPoint::ireceive(const ReceiveArguments& a) {
  ReceiveRequest* request = impl_->make_receive(a);
  impl_->begin(*request);
  return request;
}

Request* PointToPoint::receive_init(const ReceiveArguments& a) {
  ReceiveRequest* request = impl_->make_receive(a);
  request->make_persistent();
  return request;
}

// The short way of a blocking receive: where nothing else is posted or waiting, the next message of its sender, if it
// fits, is its message: it needs no request and no matching. Looks for a short while, and leaves everything else to the
// long way.
bool PointToPoint::Impl::receive_at_once(const ReceiveArguments& a, Status& status) {
  if (a.peer == kNoPeer || matching.posted_count() != 0 || matching.waiting_count() != 0) return false;
  Endpoint& peer = endpoints.at(a.peer);
  if (!peer.peeks() || !a.type->is_contiguous() || progress.has_work()) return false;
  const size_t capacity = size_t(a.count) * a.type->size();
  if (capacity > peer.eager_limit()) return false;
  const uint32_t looks = std::min(progress.idle().pauses, kDirectLooks);
  PeekedMessage arrival;
  for (uint32_t i = 0; i < looks; ++i, short_pause()) {
    if (!peer.peek(arrival)) continue;
    const wire::Header& header = *arrival.header;
    if (header.kind != wire::Kind::eager || header.context != a.context || header.source != a.source ||
        (header.tag != a.tag && a.tag != kAnyTag) || arrival.bytes > capacity) {
      return false;
    }
    peer.eager_arrived(header);
    status = Status{header.source, header.tag, Count(arrival.bytes), false};
    copy_small(a.buffer, arrival.payload, arrival.bytes);
    peer.take();
    count_received(false, arrival.bytes);
    if (tracer) [[unlikely]] {
      tracer->add(record::EventKind::receive, Recorder::now_ns(), 0, 0, a.peer, header.tag, a.context, arrival.bytes);
    }
    consumed(peer, arrival.bytes);
    return true;
  }
  return false;
}

Error ReceiveRequest::start() {
  restart();
  sender = nullptr;
  marks = 0;
  impl.begin(*this);
  return {};
}

void ReceiveRequest::destroy() {
  // Bitwise, for one branch: none of them is likely.
  if (bool(held_type) | bool(error) | (on_complete != nullptr) | persistent_ | orphaned_ | status.cancelled)
      [[unlikely]]
    renew();
  handle = 0;
  complete_ = false;
  impl.receives.give_back(this);
}

// Not the usual way of being used: as after construction again.
void ReceiveRequest::renew() {
  PointToPoint::Impl& owner = impl;
  this->~ReceiveRequest();
  new (this) ReceiveRequest(owner);
}

void PointToPoint::Impl::refuse_lost(ReceiveRequest& receive) {
  receive.error = endpoints.loss_of(receive.from->peer);
  complete(receive);
}

void PointToPoint::Impl::trace_received(ReceiveRequest& receive) {
  tracer->add(record::EventKind::receive, receive.matched_ns, Recorder::now_ns() - receive.matched_ns,
              receive.unexpected, receive.sender->peer, receive.status.tag, receive.context,
              size_t(receive.status.bytes));
  receive.matched_ns = 0;
}

// The message is no longer to be found by receives.
void PointToPoint::Impl::unwait(UnexpectedMessage& message) {
  matching.remove_waiting(message);
  counts.unexpected_queue = matching.waiting_count();
}

// A receive meets a message that was there before it. The message is out of matching already.
void PointToPoint::Impl::take(ReceiveRequest& receive, UnexpectedMessage& message) {
  match(receive, *message.from, message.header, message.bytes, true);
  if (message.header.kind == wire::Kind::rts) {
    receive.sender_token = message.header.token;
    wire::RendezvousBody body = message.body;
    uint8_t flags = message.header.flags;
    unexpected.destroy(&message);
    answer(receive, body, flags, Arrival::sender);
    return;
  }
  if (message.header.kind == wire::Kind::tuple_owed) {
    tuples->take(receive, message);
    return;
  }
  if (message.arriving) {
    message.receiver = &receive;  // on_landed delivers
    return;
  }
  unpack(receive, message.data(), size_t(receive.status.bytes));
  drop(message);
  complete(receive);
}

// An eager message's data has reached its receive: room at the receiver is free again.
void PointToPoint::Impl::drop(UnexpectedMessage& message) {
  acknowledge(*message.from, message.header);
  if (message.header.kind != wire::Kind::direct) consumed(*message.from, message.bytes);
  counts.unexpected_bytes -= message.kept();
  unexpected.destroy(&message);
}

Status PointToPoint::Impl::status_of(const UnexpectedMessage& message) const {
  return Status{message.header.source, message.header.tag, Count(message.bytes), false};
}

UnexpectedMessage* PointToPoint::Impl::look(int source, int tag, uint64_t context) {
  auto find = [&]() -> UnexpectedMessage* {
    if (tuples && !tuples->visible(source, tag, context)) return nullptr;
    return static_cast<UnexpectedMessage*>(matching.find_waiting(context, source, tag));
  };
  UnexpectedMessage* message = find();
  if (message) return message;
  progress.look();
  return find();
}

UnexpectedMessage* PointToPoint::Impl::await(int source, int tag, uint64_t context) {
  WaitingMessage* message = nullptr;
  progress.wait_until([&] {
    if (tuples && !tuples->visible(source, tag, context)) return false;
    return (message = matching.find_waiting(context, source, tag)) != nullptr;
  });
  return static_cast<UnexpectedMessage*>(message);
}

MatchedMessage* PointToPoint::Impl::take_waiting(UnexpectedMessage& message, Status& status) {
  status = status_of(message);
  unwait(message);
  return &message;
}

bool PointToPoint::iprobe(int source, int tag, uint64_t context, Status& status) {
  UnexpectedMessage* message = impl_->look(source, tag, context);
  if (message) status = impl_->status_of(*message);
  return message != nullptr;
}

MatchedMessage* PointToPoint::improbe(int source, int tag, uint64_t context, Status& status) {
  UnexpectedMessage* message = impl_->look(source, tag, context);
  return message ? impl_->take_waiting(*message, status) : nullptr;
}

Status PointToPoint::probe(int source, int tag, uint64_t context) {
  return impl_->status_of(*impl_->await(source, tag, context));
}

MatchedMessage* PointToPoint::mprobe(int source, int tag, uint64_t context, Status& status) {
  return impl_->take_waiting(*impl_->await(source, tag, context), status);
}

Request* PointToPoint::imreceive(MatchedMessage* matched, void* buffer, Count count, const Datatype& type) {
  auto& message = static_cast<UnexpectedMessage&>(*matched);
  ReceiveArguments a{
      buffer, count, &type, message.from->peer, message.header.source, message.header.tag, message.header.context};
  ReceiveRequest* request = impl_->make_receive(a);
  ++impl_->receives_open;
  impl_->take(*request, message);
  return request;
}

Error PointToPoint::mreceive(MatchedMessage* matched, void* buffer, Count count, const Datatype& type, Status& status) {
  Request* request = imreceive(matched, buffer, count, type);
  wait(*request);
  status = request->status;
  Error error = std::move(request->error);
  request->release();
  return error;
}

}  // namespace tern
