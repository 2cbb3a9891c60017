// Tuple queues: how they stop, on the receiver's side. See tuples.h.
#include <algorithm>

#include "base/assert.h"
#include "p2p/tuples/tuples.h"

namespace tern {

namespace {
bool fits(const TupleQueue& queue, int source, int tag) {
  return (source == kAnySource || source == queue.key.source) && (tag == kAnyTag || tag == queue.key.tag);
}
}  // namespace

void Tuples::stop(TupleQueue& queue, uint64_t Counters::*cause) {
  if (cause) ++(counts_.*cause);
  TERN_DEBUG_ASSERT(queue.state != TupleQueue::State::draining);
  queue.stopping = true;
  control_.post(*queue.from, wire::make_control_header(wire::Kind::tuple_stop, queue.remote));
}

// Stops the queues that the wildcard (or probe) fits. True: its communicator's receives must wait for that.
bool Tuples::hold(TupleContext& context, int source, int tag) {
  bool any = false;
  for (TupleQueue* queue : context.queues) {
    if (!fits(*queue, source, tag)) continue;
    any = true;
    if (!queue->stopping) stop(*queue, &Counters::tuple_stops_wildcard);
    if (queue->holds) continue;
    queue->holds = true;
    ++context.holding;
    TERN_DEBUG_ASSERT(context.holding <= context.queues.size());
  }
  context.wildcards += any;
  return any;
}

bool Tuples::hold_back(ReceiveRequest& receive) {
  if (contexts_.empty()) return false;
  auto found = contexts_.find(receive.context);
  if (found == contexts_.end()) return false;
  TupleContext& context = found->second;
  if (!receive.wild() && context.may_pass()) return false;
  const bool next = context.releasing == &receive;
  const bool behind = context.holding != 0 || (!context.held.empty() && !next);
  if (!behind && !(receive.wild() && hold(context, receive.source, receive.tag))) return false;
  if (next) context.held.push_front(&receive);
  else context.held.push_back(&receive);
  return true;
}

bool Tuples::visible(int source, int tag, uint64_t context) {
  auto found = contexts_.find(context);
  if (found == contexts_.end()) return true;
  if (found->second.holding != 0 || !found->second.held.empty()) return false;
  return !hold(found->second, source, tag);
}

// All queues that held it back have stopped.
void Tuples::release(TupleContext& context) {
  if (context.releasing) return;  // from inside of the loop below, which goes on
  while (context.holding == 0 && !context.held.empty()) {
    ReceiveRequest* receive = context.held.front();
    context.held.pop_front();
    TERN_DEBUG_ASSERT(!context.releasing);
    context.releasing = receive;
    receives_.put_back(*receive);
    receives_.actions().begin(*receive);
    context.releasing = nullptr;
  }
}

bool Tuples::cancel(ReceiveRequest& receive) {
  auto context = contexts_.find(receive.context);
  if (context != contexts_.end()) {
    auto& held = context->second.held;
    auto place = std::find(held.begin(), held.end(), &receive);
    if (place != held.end()) {
      TERN_DEBUG_ASSERT(!receive.posted());
      held.erase(place);
      receives_.complete_cancelled(receive);
      return true;
    }
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

void Tuples::on_owed(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleOwedBody body;
  TupleQueue* queue = queues_.find(header.token);
  if (!wire::parse_body(payload, bytes, body) || !queue || queue->from != &peer ||
      queue->state == TupleQueue::State::draining || body.bytes > queue->path->tuple_properties().longest_bytes)
    return;
  queue->envelopes.push_back(body);
}

void Tuples::on_stopped(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
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
  unlist(queue);
  cancel_marked(queue.key);
  const uint64_t context = queue.key.context;
  TERN_DEBUG_ASSERT(!queue.holds || contexts_[context].holding != 0);
  if (queue.holds) --contexts_[context].holding;
  land(queue);
  close_if_drained(queue);
  release(contexts_[context]);
}

// What is in the queue is matched now, in order, as if it came over the lane. The oldest messages belong to the buffers
// that are in the queue; some of those may have landed without our having seen it.
void Tuples::match_owed(TupleQueue& queue) {
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
    TupleOwed& owed = owe(queue, known ? queue.envelopes[next] : wire::TupleOwedBody{});
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
        receives_.match(*receive, *queue.from, header_of(queue), size_t(owed.body.bytes));
        if (owed.body.wants_ack != 0) acknowledge(*queue.from, owed.body);
      }
      continue;
    }
    UnexpectedMessage* message = &unexpected_.create();
    message->context = queue.key.context;
    message->source = queue.key.source;
    message->tag = queue.key.tag;
    message->from = queue.from;
    message->header = header_of(queue);
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

TupleOwed& Tuples::owe(TupleQueue& queue, const wire::TupleOwedBody& body) {
  auto owed = std::make_unique<TupleOwed>();
  owed->queue = &queue;
  owed->body = body;
  queue.owed.push_back(std::move(owed));
  return *queue.owed.back();
}

// Among the waiting messages of its sender, where it was sent.
void Tuples::wait_in_order(UnexpectedMessage& message) {
  unexpected_.keep_in_order(message, [&](const UnexpectedMessage& other) {
    if (other.from != message.from) return false;
    return other.by_queue ? after(other.order, message.order) : after(other.number, message.number);
  });
}

void Tuples::acknowledge(Endpoint& to, const wire::TupleOwedBody& body) {
  control_.post(to, wire::make_control_header(wire::Kind::sync_ack, body.token));
}

// Receives that were to be cancelled, and that nothing in the queue was for.
void Tuples::cancel_marked(const TupleKey& key) {
  PostedReceive* next = receives_.matching.first_of(key.context, key.source, key.tag);
  while (next) {
    auto& receive = static_cast<ReceiveRequest&>(*next);
    next = receives_.matching.next_of(*next);
    if (!receive.cancelling()) continue;
    receives_.complete_cancelled(receive);
  }
}

// A receive has met a message that is still in a queue.
void Tuples::take(ReceiveRequest& receive, UnexpectedMessage& message) {
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
void Tuples::discard(UnexpectedMessage& message) {
  TupleOwed& owed = *message.owed;
  TupleQueue& queue = *owed.queue;
  owed.message = nullptr;
  if (owed.state == TupleOwed::State::waiting) owed.state = TupleOwed::State::discarded;
  for (auto& before : queue.owed) {
    if (before.get() == &owed) break;
    if (before->state != TupleOwed::State::waiting) continue;
    before->state = TupleOwed::State::kept;
    before->data = std::make_unique_for_overwrite<std::byte[]>(size_t(before->body.bytes));
  }
  land(queue);
}

// Posts buffers for what is in the queue, in order, up to the first message without a receive.
void Tuples::land(TupleQueue& queue) {
  for (auto& owed : queue.owed) {
    if (owed->posted) continue;
    if (queue.lost && !queue.fetching) return;  // those before it come first
    if (owed->state == TupleOwed::State::waiting || !post(queue, owed->receive, owed.get())) return;
    TERN_DEBUG_ASSERT(!owed->posted);
    owed->posted = true;
  }
}

void Tuples::close_if_drained(TupleQueue& queue) {
  if (queue.state == TupleQueue::State::draining && queue.landed == queue.sent) close(queue);
}

// Receives that are left in it are posted receives like others.
void Tuples::close(TupleQueue& queue) {
  queue.path->close(*queue.queue);
  while (TuplePosting* posting = queue.postings.pop_front()) postings_.destroy(posting);
  TERN_DEBUG_ASSERT(queues_.find(queue.token) == &queue && queue.postings.empty());
  queues_.remove(queue.token);
  counts_.tuple_queues = queues_.live();
  delete &queue;
}

void Tuples::unlist(TupleQueue& queue) {
  TERN_DEBUG_ASSERT(by_key_.contains(queue.key));
  by_key_.erase(queue.key);
  std::erase(contexts_[queue.key.context].queues, &queue);
}

void Tuples::lose_queue(TupleQueue& queue) {
  if (queue.state != TupleQueue::State::draining) {
    unlist(queue);
    if (queue.holds) --contexts_[queue.key.context].holding;
  }
  for (auto& owed : queue.owed) {
    if (owed->message) owed->message->owed = nullptr;
    if (!owed->receive) continue;
    receives_.fail(*owed->receive, endpoints_.loss_of(queue.from->peer));
  }
  close(queue);
}

void Tuples::on_peer_lost(Endpoint& peer) {
  lines_.for_each([&](TupleLine& line) {
    if (line.to != &peer) return;
    for (size_t returned = line.returned(); returned != 0; --returned)
      arrived(*line.out.front(), endpoints_.loss_of(peer.peer));
  });
  lines_.for_each([&](TupleLine& line) {
    if (line.to != &peer || !line.out.empty()) return;
    auto entry = entries_.find(line.key);
    if (entry != entries_.end() && entry->second.line == &line) entry->second.line = nullptr;
    leave(line);
  });
  queues_.for_each([&](TupleQueue& queue) {
    if (queue.from == &peer) lose_queue(queue);
  });
  for (auto& [id, context] : contexts_) release(context);
}

}  // namespace tern
