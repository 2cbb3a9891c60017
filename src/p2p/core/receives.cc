#include "p2p/core/receives.h"

#include <string>

namespace tern {

Error ReceiveRequest::start() {
  restart();
  sender = nullptr;
  receives.actions().begin(*this);
  return {};
}

void ReceiveRequest::cancel() { receives.actions().cancel(*this); }

void ReceiveRequest::destroy() {
  // Bitwise, for one branch: none of them is likely.
  if (int(bool(held_type)) | int(bool(error)) | int(on_complete != nullptr) | int(persistent_) | int(orphaned_) |
      int(status.cancelled)) [[unlikely]]
    renew();
  handle = 0;
  complete_ = false;
  receives.recycle(*this);
}

// Not the usual way of being used: as after construction again.
void ReceiveRequest::renew() {
  Receives& owner = receives;
  this->~ReceiveRequest();
  new (this) ReceiveRequest(owner);
}

Error Receives::truncation(const wire::Header& header, size_t bytes, size_t capacity) {
  return Error(ErrorClass::truncate, "the message from rank " + std::to_string(header.source) + " with tag " +
                                         std::to_string(header.tag) + " has " + std::to_string(bytes) +
                                         " bytes, but the receive buffer holds " + std::to_string(capacity));
}

void Receives::watch_direct(PeerId peer, int tag, uint64_t context, size_t bytes) {
  if (tracer_) tracer_->add(record::EventKind::receive, Recorder::now_ns(), 0, 0, peer, tag, context, bytes);
  counts_.tell(Event::message_matched, {int32_t(peer), tag, int64_t(context), int64_t(bytes)});
}

void Receives::watch_match(ReceiveRequest& receive, PeerId peer, const wire::Header& header, size_t bytes,
                           bool waited) {
  receive.matched_ns = Recorder::now_ns();
  receive.unexpected = waited;
  counts_.tell(Event::message_matched, {int32_t(peer), header.tag, int64_t(receive.context), int64_t(bytes)});
}

void Receives::watch_complete(ReceiveRequest& receive) {
  const PeerId peer = receive.sender->peer;
  const Status& status = receive.status;
  if (tracer_) {
    tracer_->add(record::EventKind::receive, receive.matched_ns, Recorder::now_ns() - receive.matched_ns,
                 receive.unexpected, peer, status.tag, receive.context, size_t(status.bytes));
  }
  receive.matched_ns = 0;
  counts_.tell(Event::request_completed, {int32_t(peer), status.tag, 1, int64_t(status.bytes)});
}

void Receives::unpack(ReceiveRequest& receive, const std::byte* payload, size_t bytes) {
  Cursor target = receive.target();
  target.unpack(payload, bytes);
}

void Receives::complete_cancelled(ReceiveRequest& receive) {
  if (receive.posted()) {
    if (!receive.wild()) {
      matching.visit_from(receive, [](PostedReceive& later) {
        if (ReceiveOffer* offer = static_cast<ReceiveRequest&>(later).offer) --offer->place;
      });
    }
    unpost(receive);
  }
  receive.status = Status{.source = kAnySource, .tag = kAnyTag, .bytes = 0, .cancelled = true};
  complete(receive);
}

ReceiveOffer& Receives::offer(ReceiveRequest& receive) {
  if (!receive.offer) {
    receive.offer = offers_.create(receive, receive.from ? *receive.from : *receive.sender);
    receive.offer->token = tokens_.add(*receive.offer);
    offered_bytes_ += receive.capacity;
  }
  return *receive.offer;
}

uint64_t Receives::expose(ReceiveOffer& offer, uint64_t (&key)[2]) {
  const ReceiveRequest& receive = offer.receive;
  Endpoint& peer = offer.peer;
  if (peer.lost() || !peer.can_put() || !receive.type->is_contiguous() || receive.capacity == 0) return 0;
  if (offer.exposed.empty()) {
    offer.exposed.expose(peer, receive.buffer, receive.capacity, {.write = true});
    if (offer.exposed.empty()) return 0;
    if (peer.arbitrates()) offer.heartbeat.begin(heartbeat_);
  }
  key[0] = offer.exposed.key().words[0];
  key[1] = offer.exposed.key().words[1];
  return reinterpret_cast<uint64_t>(receive.buffer);
}

// Its name, its memory and its place in the counts are free again.
void Receives::end_offer(ReceiveRequest& receive) {
  TERN_ASSERT(receive.offer && &receive.offer->receive == &receive && offered_bytes_ >= receive.capacity);
  offered_bytes_ -= receive.capacity;
  tokens_.remove(receive.offer->token);
  offers_.destroy(receive.offer);
  receive.offer = nullptr;
}

}  // namespace tern
