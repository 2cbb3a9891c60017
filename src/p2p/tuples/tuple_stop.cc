// Tuple queues: how they stop, on the receiver's side. See tuples.h.
#include <algorithm>

#include "base/assert.h"
#include "p2p/tuples/tuple_receiver.h"

namespace tern {

void TupleReceiver::stop(TupleQueue& queue, uint64_t Counters::*cause) {
  if (cause) ++(counts_.*cause);
  TERN_DEBUG_ASSERT(queue.state != TupleQueue::State::draining);
  queue.stopping = true;
  control_.post(*queue.from, wire::make_control_header(wire::Kind::tuple_stop, queue.remote));
}

bool TupleReceiver::hold_back(ReceiveRequest& receive) {
  return contexts_.hold_back(receive, [this](TupleQueue& queue) { stop(queue, &Counters::tuple_stops_wildcard); });
}

bool TupleReceiver::visible(int source, int tag, uint64_t context) {
  return contexts_.visible(source, tag, context,
                           [this](TupleQueue& queue) { stop(queue, &Counters::tuple_stops_wildcard); });
}

// All queues that held receives of the context back may have stopped.
void TupleReceiver::release_held(uint64_t context) {
  contexts_.release(context, [this](ReceiveRequest& receive) {
    receives_.put_back(receive);
    receives_.actions().begin(receive);
  });
}

bool TupleReceiver::cancel(ReceiveRequest& receive) {
  if (contexts_.withdraw(receive)) {
    receives_.complete_cancelled(receive);
    return true;
  }
  if (!receive.posted()) return false;
  if (receive.cancelling()) return true;
  TupleQueue* queue = queue_of(receive);
  if (!queue) return false;
  // If it is behind those in the queue, nothing is in the way.
  bool inside = false;
  for (TuplePosting* p = queue->postings.front(); p; p = queue->postings.next(p)) inside |= p->receive == &receive;
  if (!inside) return false;
  receive.place = ReceiveRequest::Place::cancelling;
  if (!queue->stopping) stop(*queue, &Counters::tuple_stops_cancel);
  return true;
}

void TupleReceiver::on_owed(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleOwedBody body;
  TupleQueue* queue = queues_.find(header.token);
  if (!wire::parse_body(payload, bytes, body) || !queue || queue->from != &peer ||
      queue->state == TupleQueue::State::draining || body.bytes > queue->path->tuple_properties().longest_bytes)
    return;
  queue->envelopes.push_back(body);
}

void TupleReceiver::on_stopped(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleStoppedBody body;
  TupleQueue* found = queues_.find(header.token);
  if (!wire::parse_body(payload, bytes, body) || !found || found->from != &peer ||
      found->state == TupleQueue::State::draining)
    return;
  TupleQueue& queue = *found;
  queue.sent = body.sent;
  TERN_DEBUG_ASSERT(!after(queue.landed, queue.sent));
  match_owed(queue);
  queue.state = TupleQueue::State::draining;
  TERN_DEBUG_ASSERT(queue.envelopes.empty());
  by_key_.erase(queue.key);
  contexts_.unlist(queue);
  cancel_marked(queue.key);
  const uint64_t context = queue.key.context;
  land(queue);
  if (queue.drained()) close(queue);
  release_held(context);
}

// What is in the queue is matched now, in order, as if it came over the lane. The oldest messages belong to the buffers
// that are in the queue; some of those may have landed without our having seen it.
void TupleReceiver::match_owed(TupleQueue& queue) {
  size_t next = 0;
  TuplePosting* posting = queue.postings.front();
  for (const wire::TupleOwedBody& body : queue.envelopes) {
    if (!after(queue.landed, body.index)) break;
    if (body.wants_ack != 0) acknowledge(*queue.from, body);
    ++next;
  }
  for (uint32_t index = queue.landed; index != queue.sent; ++index) {
    const bool known = next < queue.envelopes.size() && queue.envelopes[next].index == index;
    TERN_ASSERT(known || posting);  // else the two sides count differently
    TupleOwed& owed = queue.owe(known ? queue.envelopes[next] : wire::TupleOwedBody{});
    owed.body.index = index;
    next += known;
    owed.known = known;
    ReceiveRequest* receive = nullptr;
    if (posting) {
      receive = posting->receive;
      receives_.unpost(*receive);
      receive->sender = queue.from;
      TERN_DEBUG_ASSERT(!posting->owed && posting->receive);
      posting->owed = &owed;
      owed.posted = true;
      posting = queue.postings.next(posting);
    } else {
      receive = static_cast<ReceiveRequest*>(
          receives_.matching.match_arrival(queue.key.context, queue.key.source, queue.key.tag));
    }
    if (receive) {
      owed.state = TupleOwed::State::wanted;
      owed.receive = receive;
      if (known) {
        receives_.match(*receive, *queue.from, queue.header(), size_t(owed.body.bytes));
        if (owed.body.wants_ack != 0) acknowledge(*queue.from, owed.body);
      }
      continue;
    }
    UnexpectedMessage* message = &unexpected_.create();
    message->context = queue.key.context;
    message->source = queue.key.source;
    message->tag = queue.key.tag;
    message->from = queue.from;
    message->header = queue.header();
    message->header.token = owed.body.token;
    message->bytes = size_t(owed.body.bytes);
    message->number = owed.body.position;
    message->order = owed.body.order;
    message->by_queue = true;
    message->owed = &owed;
    TERN_DEBUG_ASSERT(!owed.receive && !owed.posted);
    owed.message = message;
    wait_in_order(*message);
  }
  queue.envelopes.clear();
}

// Among the waiting messages of its sender, where it was sent.
void TupleReceiver::wait_in_order(UnexpectedMessage& message) {
  unexpected_.keep_in_order(message, [&](const UnexpectedMessage& other) {
    if (other.from != message.from) return false;
    return other.by_queue ? after(other.order, message.order) : after(other.number, message.number);
  });
}

void TupleReceiver::acknowledge(Endpoint& to, const wire::TupleOwedBody& body) {
  control_.post(to, wire::make_control_header(wire::Kind::sync_ack, body.token));
}

// Receives that were to be cancelled, and that nothing in the queue was for.
void TupleReceiver::cancel_marked(const TupleKey& key) {
  PostedReceive* next = receives_.matching.first_of(key.context, key.source, key.tag);
  while (next) {
    auto& receive = static_cast<ReceiveRequest&>(*next);
    next = receives_.matching.next_of(*next);
    if (!receive.cancelling()) continue;
    receives_.complete_cancelled(receive);
  }
}

// A receive has met a message that is still in a queue.
void TupleReceiver::take(ReceiveRequest& receive, UnexpectedMessage& message) {
  TupleOwed* owed = message.owed;
  Endpoint& from = *message.from;
  unexpected_.destroy(message);
  if (!owed) {  // its sender was lost before it could land
    receives_.fail(receive, endpoints_.loss_of(from.peer));
    return;
  }
  owed->message = nullptr;
  TERN_DEBUG_ASSERT(!owed->receive && owed->message == nullptr);
  owed->receive = &receive;
  if (owed->state == TupleOwed::State::waiting) owed->state = TupleOwed::State::wanted;
  if (owed->body.wants_ack != 0) acknowledge(from, owed->body);
  land(*owed->queue);
}

// Its data must still come out of the queue, and before it what was sent before it.
void TupleReceiver::discard(UnexpectedMessage& message) {
  TupleOwed& owed = *message.owed;
  TupleQueue& queue = *owed.queue;
  owed.message = nullptr;
  if (owed.state == TupleOwed::State::waiting) owed.state = TupleOwed::State::discarded;
  for (auto& before : queue.owed) {
    if (before.get() == &owed) break;
    if (before->state != TupleOwed::State::waiting) continue;
    before->state = TupleOwed::State::kept;
    before->data = unexpected_.room(size_t(before->body.bytes));
  }
  land(queue);
}

// Posts buffers for what is in the queue, in order, up to the first message without a receive.
void TupleReceiver::land(TupleQueue& queue) {
  for (auto& owed : queue.owed) {
    if (owed->posted) continue;
    if (queue.lost && !queue.fetching) return;  // those before it come first
    if (owed->state == TupleOwed::State::waiting || !post(queue, owed->receive, owed.get())) return;
    TERN_DEBUG_ASSERT(!owed->posted);
    owed->posted = true;
  }
}

// Receives that are left in it are posted receives like others.
void TupleReceiver::close(TupleQueue& queue) {
  queue.path->close(*queue.queue);
  while (TuplePosting* posting = queue.postings.pop_front()) postings_.destroy(posting);
  TERN_DEBUG_ASSERT(queues_.find(queue.token) == &queue && queue.postings.empty());
  queues_.remove(queue.token);
  counts_.tuple_queues = queues_.live();
  delete &queue;
}

void TupleReceiver::lose_queue(TupleQueue& queue) {
  if (queue.state != TupleQueue::State::draining) {
    by_key_.erase(queue.key);
    contexts_.unlist(queue);
  }
  for (auto& owed : queue.owed) {
    if (owed->message) owed->message->owed = nullptr;
    if (!owed->receive) continue;
    receives_.fail(*owed->receive, endpoints_.loss_of(queue.from->peer));
  }
  close(queue);
}

void TupleReceiver::on_peer_lost(Endpoint& peer) {
  queues_.for_each([&](TupleQueue& queue) {
    if (queue.from == &peer) lose_queue(queue);
  });
  contexts_.release_all([this](ReceiveRequest& receive) {
    receives_.put_back(receive);
    receives_.actions().begin(receive);
  });
}

}  // namespace tern
