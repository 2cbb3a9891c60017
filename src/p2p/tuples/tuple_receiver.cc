#include "p2p/tuples/tuple_receiver.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace tern {

void refuse_tuple_queue(ControlMessages& control, Endpoint& peer, const wire::Header& ask, bool never) {
  wire::TupleAnswerBody body{};
  body.never = never;
  control.post(peer, wire::make_control_header(wire::Kind::tuple_answer, ask.token), &body, sizeof body);
}

TupleReceiver::~TupleReceiver() {
  queues_.for_each([](TupleQueue& queue) { delete &queue; });
}

// No receive is in the way: a wildcard that fits, or one whose sender knows of it.
bool TupleReceiver::may_open(const TupleKey& key, const TupleContext* context) {
  if (by_key_.contains(key)) return false;
  if (context && (context->holding != 0 || !context->held.empty())) return false;
  if (!(context && context->never_wild()) && receives_.matching.wild_fits(key.context, key.source, key.tag))
    return false;
  PostedReceive* posted =
      contexts_.everywhere() ? nullptr : receives_.matching.first_of(key.context, key.source, key.tag);
  for (; posted; posted = receives_.matching.next_of(*posted)) {
    if (static_cast<ReceiveRequest*>(posted)->offer) return false;
  }
  return true;
}

void TupleReceiver::on_ask(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleAskBody asked;
  if (!wire::parse_body(payload, bytes, asked)) return;
  const TupleKey key{peer.peer, header.source, header.tag, header.context};
  const TupleContext* context = contexts_.find(key.context);
  const bool given_up = (context ? context->wildcards : 0) >= max_wildcards_;
  if (!peer.tuples || given_up || !contexts_.wants(key.context)) {
    ++counts_.tuple_refused;
    refuse_tuple_queue(control_, peer, header, given_up);
    return;
  }
  wire::TupleAnswerBody body{};
  TupleTicket ticket, answer;
  std::memcpy(&ticket, asked.ticket, sizeof ticket);
  const bool full = queues_.live() >= max_queues_;
  if (full) {
    ++clock_;
    stop_unused_queue();
  }
  TupleReceiveQueue* made = nullptr;
  if (!full && may_open(key, context)) made = peer.tuples->accept(peer.lane(), ticket, answer);
  if (made) {
    auto* queue = new TupleQueue;
    queue->owner = this;
    queue->from = &peer;
    queue->key = key;
    queue->remote = header.token;
    queue->token = body.queue = queues_.add(*queue);
    queue->queue = made;
    queue->path = peer.tuples;
    queue->used = clock_;
    TERN_DEBUG_ASSERT(!by_key_.contains(key));
    by_key_[key] = queue;
    contexts_.list(*queue);
    std::memcpy(body.ticket, &answer, sizeof body.ticket);
    counts_.tuple_queues = queues_.live();
  } else {
    ++counts_.tuple_refused;
  }
  control_.post(peer, wire::make_control_header(wire::Kind::tuple_answer, header.token), &body, sizeof body);
}

// All messages of the tuple that have come otherwise are here. Where a stop is out already, the envelopes tell of what
// has gone into the queue meanwhile.
void TupleReceiver::on_begin(Endpoint& peer, const wire::Header& header) {
  TupleQueue* queue = queues_.find(header.token);
  if (!queue || queue->from != &peer || queue->state != TupleQueue::State::accepted || queue->stopping) return;
  queue->state = TupleQueue::State::open;
  TERN_DEBUG_ASSERT(queue->posted == 0 && queue->postings.empty());
  feed(*queue);
}

TupleQueue* TupleReceiver::queue_of(const ReceiveRequest& receive) {
  if (by_key_.empty() || receive.wild()) return nullptr;
  auto found = by_key_.find({receive.from->peer, receive.source, receive.tag, receive.context});
  return found == by_key_.end() ? nullptr : found->second;
}

void TupleReceiver::posted(ReceiveRequest& receive) {
  TupleQueue* queue = queue_of(receive);
  TERN_DEBUG_ASSERT(receive.posted());
  if (!queue || queue->state != TupleQueue::State::open || queue->backlog || queue->lost) return;
  if (post(*queue, &receive, nullptr)) ++queue->posted;
  else feed(*queue);
}

// Posts the receives of the key that are not in the queue yet, as many as it takes.
void TupleReceiver::feed(TupleQueue& queue) {
  queue.backlog = false;
  if (queue.state != TupleQueue::State::open || queue.lost) return;
  const TupleKey& key = queue.key;
  PostedReceive* next = receives_.matching.first_of(key.context, key.source, key.tag);
  for (uint32_t i = 0; next && i < queue.posted; ++i) next = receives_.matching.next_of(*next);
  for (; next; next = receives_.matching.next_of(*next)) {
    if (!post(queue, static_cast<ReceiveRequest*>(next), nullptr)) {
      queue.backlog = true;
      // With nothing in the queue there is nothing whose landing would bring us here again.
      if (queue.posted == 0 && !queue.stopping) stop(queue, nullptr);
      return;
    }
    ++queue.posted;
  }
}

// Puts a buffer into the queue: the receive's own, or one that its data is unpacked from later.
bool TupleReceiver::post(TupleQueue& queue, ReceiveRequest* receive, TupleOwed* owed) {
  TuplePosting& posting = *postings_.create();
  posting.queue = &queue;
  posting.receive = receive;
  posting.owed = owed;
  posting.exact = queue.exact;
  posting.done = [](TupleReceive& done, size_t bytes, Error error) {
    auto& self = static_cast<TuplePosting&>(done);
    self.queue->owner->landed(self, bytes, std::move(error));
  };
  bool taken = false;
  if (owed && owed->state == TupleOwed::State::kept) {
    posting.buffer = owed->data.data();
    posting.capacity = size_t(owed->body.bytes);
    taken = offer(queue, posting);
  } else if (!receive) {
    taken = offer(queue, posting);  // into nothing
  } else {
    posting.capacity = receive->capacity;
    if (owed) posting.capacity = std::min(posting.capacity, size_t(owed->body.bytes));
    if (receive->type->is_contiguous()) {
      posting.buffer = static_cast<std::byte*>(receive->buffer);
      taken = offer(queue, posting);
    }
    // Also for memory that the adapter does not take. Of an open queue `posted` says whether there is room.
    if (!taken && (owed || queue.posted < queue.path->tuple_properties().depth)) {
      posting.bounce = std::make_unique_for_overwrite<std::byte[]>(posting.capacity);
      posting.buffer = posting.bounce.get();
      taken = offer(queue, posting);
    }
  }
  TERN_DEBUG_ASSERT(!taken || posting.capacity == 0 || posting.buffer);
  if (taken) queue.postings.push_back(&posting);
  else postings_.destroy(&posting);
  return taken;
}

// A message has come through the queue, into its oldest buffer.
void TupleReceiver::landed(TuplePosting& posting, size_t bytes, Error error) {
  TupleQueue& queue = *posting.queue;
  IntrusiveList<TuplePosting>::remove(&posting);
  ++queue.landed;
  TERN_DEBUG_ASSERT(queue.state != TupleQueue::State::accepted);
  queue.used = ++clock_;
  if (queue.state == TupleQueue::State::draining) {
    landed_owed(queue, posting, bytes, std::move(error));
    postings_.destroy(&posting);
    land(queue);
    if (queue.drained()) close(queue);
    return;
  }
  ReceiveRequest& receive = *posting.receive;
  TERN_ASSERT(receive.posted());
  TERN_ASSERT(queue.posted != 0 && queue.state == TupleQueue::State::open);
  TERN_DEBUG_ASSERT(posting.receive && !posting.owed);
  receives_.unpost(receive);
  --queue.posted;
  if (queue.backlog) feed(queue);
  receives_.match(receive, *queue.from, queue.header(), bytes);
  if (posting.bounce) Receives::unpack(receive, posting.bounce.get(), size_t(receive.status.bytes));
  if (error) receive.error = std::move(error);
  postings_.destroy(&posting);
  receives_.complete(receive);
}

// The queue has stopped: the message is one whose envelope is here.
void TupleReceiver::landed_owed(TupleQueue& queue, TuplePosting& posting, size_t bytes, Error error) {
  TERN_ASSERT(!queue.owed.empty() && queue.owed.front()->posted);
  std::unique_ptr<TupleOwed> owed = std::move(queue.owed.front());
  queue.owed.pop_front();
  TERN_DEBUG_ASSERT(owed->queue == &queue);
  if (ReceiveRequest* receive = owed->receive) {
    if (error) {
      receives_.fail(*receive, std::move(error));
      return;
    }
    if (!owed->known) receives_.match(*receive, *queue.from, queue.header(), bytes);
    const std::byte* from = owed->data ? owed->data.data() : posting.bounce.get();
    if (from) Receives::unpack(*receive, from, size_t(receive->status.bytes));
    receives_.complete(*receive);
    return;
  }
  UnexpectedMessage* message = owed->message;
  if (!message) return;  // taken back by its sender
  // From now on it waits like a message that has come over the lane.
  message->owed = nullptr;
  message->header.kind = wire::Kind::direct;
  message->header.flags = owed->body.wants_ack ? wire::kWantsAck : 0;
  message->block = std::move(owed->data);
  unexpected_.landed(*message);
}

void TupleReceiver::stop_unused_queue() {
  TupleQueue* unused = nullptr;
  queues_.for_each([&](TupleQueue& queue) {
    if (queue.state == TupleQueue::State::open && !queue.stopping && queue.posted == 0 &&
        (!unused || queue.used < unused->used))
      unused = &queue;
  });
  if (unused && clock_ - unused->used >= kTupleUnusedFactor * max_queues_) stop(*unused, &Counters::tuple_stops_unused);
}

// --- The connection of a queue has failed.

// A queue that is not there any more has been closed, and that happens only when all of its messages have landed.
void TupleReceiver::on_repair(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleRepairBody asked;
  if (!wire::parse_body(payload, bytes, asked)) return;
  wire::TupleResumeBody body{};
  TupleQueue* queue = queues_.find(header.token);
  if (queue && queue->lost) return;  // its sender knows by now
  if (!queue || queue->from != &peer || queue->remote != asked.line) {
    body.result = wire::TupleResumeBody::closed;
  } else {
    TupleTicket ticket, answer;
    std::memcpy(&ticket, asked.ticket, sizeof ticket);
    if (queue->path->repair(*queue->queue, ticket, answer)) body.result = wire::TupleResumeBody::failed;
    else std::memcpy(body.ticket, &answer, sizeof body.ticket);
  }
  control_.post(peer, wire::make_control_header(wire::Kind::tuple_resume, asked.line), &body, sizeof body);
}

}  // namespace tern
