// Tuple queues: the path of a queue is lost, and the lane goes on by another one. Both sides; see tuples.h.
//
// What the queues have delivered is final on both sides, since the lane's other path is used only after both have given
// up this one. What is told from here on goes by that.
#include <utility>

#include "base/assert.h"
#include "p2p/tuples/tuple_receiver.h"
#include "p2p/tuples/tuple_sender.h"

namespace tern {

// --- The receiver

void TupleReceiver::on_queues_lost(Endpoint& peer) {
  queues_.for_each([&](TupleQueue& queue) {
    if (queue.from == &peer) queue.lost = true;
  });
}

// The sender has told all envelopes before.
void TupleReceiver::on_lost(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleLostBody told;
  if (!wire::parse_body(payload, bytes, told)) return;
  TupleQueue* queue = queues_.find(header.token);
  if (queue && (queue->from != &peer || queue->remote != told.line)) queue = nullptr;
  if (queue && (queue->state != TupleQueue::State::draining || !queue->lost || queue->fetching)) return;
  const wire::TupleLandedBody body{queue ? queue->landed : 0, queue == nullptr};
  control_.post(peer, wire::make_control_header(wire::Kind::tuple_landed, told.line), &body, sizeof body);
  if (!queue) return;
  TERN_DEBUG_ASSERT(queue->lost && !queue->fetching && queue->state == TupleQueue::State::draining);
  queue->fetching = true;
  for (auto& owed : queue->owed) {
    if (owed->posted) want(*queue, *owed);
  }
  land(*queue);
}

void TupleReceiver::want(TupleQueue& queue, const TupleOwed& owed) {
  const wire::TupleWantBody body{queue.token, owed.body.index};
  control_.post(*queue.from, wire::make_control_header(wire::Kind::tuple_want, queue.remote), &body, sizeof body);
}

// Puts the buffer into the queue, or asks for what is to come into it.
bool TupleReceiver::offer(TupleQueue& queue, TuplePosting& posting) {
  if (!queue.lost) return queue.path->post(*queue.queue, posting);
  TERN_ASSERT(queue.fetching && posting.owed);
  want(queue, *posting.owed);
  return true;
}

/// Of a tuple_data that was asked for; null: it was not.
TupleQueue* TupleReceiver::fetching_queue(Endpoint& from, const wire::Header& header) const {
  TupleQueue* queue = queues_.find(header.token);
  const bool wanted = queue && queue->from == &from && queue->fetching && !queue->owed.empty();
  return wanted && queue->owed.front()->posted ? queue : nullptr;
}

Landing TupleReceiver::landing_of(Endpoint& from, const wire::Header& header) {
  TupleQueue* queue = fetching_queue(from, header);
  if (!queue) return {};
  TuplePosting& oldest = *queue->postings.front();
  TERN_DEBUG_ASSERT(queue->postings.front() && oldest.owed == queue->owed.front().get());
  return {.target = Cursor::bytes(oldest.buffer, oldest.capacity)};
}

void TupleReceiver::landed(Endpoint& from, const wire::Header& header, size_t bytes, Error error) {
  TupleQueue* queue = fetching_queue(from, header);
  if (!queue || error) return;  // the loss of the peer follows
  if (header.flags & wire::kGone)
    error = Error(ErrorClass::other, "a message was lost with the adapter: its sender had seen it arrive");
  landed(*queue->postings.front(), bytes, std::move(error));
}

// --- The sender

void TupleSender::on_queues_lost(Endpoint& peer) {
  lines_.for_each([&](TupleLine& line) {
    if (line.to != &peer || line.lost) return;
    TERN_DEBUG_ASSERT(line.state != TupleLine::State::open || line.remote != 0);
    line.lost = true;
    if (line.state == TupleLine::State::asked) return;  // its answer will end it
    const uint32_t queue = line.remote;
    const wire::TupleLostBody body{line.token, 0};
    if (line.state == TupleLine::State::open) end(line, &Counters::tuple_stops_lost);
    control_.post(peer, wire::make_control_header(wire::Kind::tuple_lost, queue), &body, sizeof body);
  });
}

void TupleSender::on_landed(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleLandedBody body;
  TupleLine* line = lines_.find(header.token);
  if (!wire::parse_body(payload, bytes, body) || !line || line->to != &peer || !line->lost) return;
  size_t count = 0;
  for (TupleMessage* message = line->out.front(); message; message = line->out.next(message)) {
    if (message->state != TupleMessage::State::returned) return;  // the peer has asked for some already
    count += body.all != 0 || after(body.landed, message->index);
  }
  for (; count != 0; --count) arrived(*line->out.front(), {});  // with the last one the line may go
}

void TupleSender::on_want(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleWantBody body;
  if (!wire::parse_body(payload, bytes, body)) return;
  TupleLine* line = lines_.find(header.token);
  TupleMessage* message = line && line->to == &peer && line->lost ? line->out.front() : nullptr;
  while (message && message->index != body.index) message = line->out.next(message);
  if (message && message->state == TupleMessage::State::returned) {
    send_again(*message, body.queue);
  } else {
    control_.post(peer, wire::make_control_header(wire::Kind::tuple_data, body.queue, wire::kGone));
  }
}

void TupleSender::send_again(TupleMessage& message, uint32_t queue) {
  TERN_DEBUG_ASSERT(message.state == TupleMessage::State::returned && message.line->lost && !message.again);
  message.state = TupleMessage::State::fetched;
  message.again = std::make_unique<TupleMessage::Again>();
  message.again->message = &message;
  message.again->header = wire::make_control_header(wire::Kind::tuple_data, queue);
  message.again->payload = Cursor::bytes(const_cast<std::byte*>(message.data), message.bytes);
  message.again->done = [](SendOperation& operation, Error error) {
    TupleMessage& its = *static_cast<TupleMessage::Again&>(operation).message;
    its.line->owner->arrived(its, std::move(error));
  };
  ++counts_.tuple_fetched;
  message.line->to->enqueue(*message.again);
}

}  // namespace tern
