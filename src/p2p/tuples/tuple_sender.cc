#include "p2p/tuples/tuple_sender.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace tern {

namespace {
/// A tuple gets a queue from its second message on: a program that uses each tag once has no use for queues. Each time
/// that the receiver refuses or stops it, the number of messages until the next question doubles, up to 2^10: asking
/// costs two messages, which is then less than a part in 500.
constexpr uint32_t kAskAt = 2;
constexpr uint32_t kMaxDoublings = 9;
/// Of ask_at: it is not asked for again.
constexpr uint32_t kNever = ~0u;
/// Tuples that are remembered though they have no queue (some 100 bytes each); beyond, all of those are forgotten.
constexpr size_t kMaxEntries = 4096;
}  // namespace

TupleEntry& TupleSender::entry_of(const TupleKey& key) {
  if (entries_.size() > kMaxEntries + max_queues_)
    std::erase_if(entries_, [](const auto& item) { return item.second.line == nullptr; });
  auto [found, made] = entries_.try_emplace(key);
  if (made) found->second.ask_at = kAskAt;
  return found->second;
}

bool TupleSender::send(SendRequest& send, size_t bytes) {
  const SendArguments& a = send.arguments;
  Endpoint& peer = send.endpoint;
  if (!peer.tuples || peer.messages.restarted() || !contexts_.wants(a.context)) return false;
  ++clock_;
  const TupleKey key{a.peer, a.source, a.tag, a.context};
  TupleEntry& entry = entry_of(key);
  const bool too_long = bytes > peer.tuples->tuple_properties().longest_bytes;
  if (entry.line && entry.line->state == TupleLine::State::open) {
    if (!too_long && post(*entry.line, send, bytes)) return true;
    end(*entry.line, too_long ? &Counters::tuple_stops_long : &Counters::tuple_stops_busy);
  } else if (!entry.line && !too_long && !a.attended && ++entry.seen >= entry.ask_at) {
    ask(peer, key, entry);
  }
  if (too_long) entry.ask_at = kNever;
  ++counts_.tuple_misses;
  return false;
}

// Hands a message to an open queue; false: the path does not take it.
bool TupleSender::post(TupleLine& line, SendRequest& send, size_t bytes) {
  const SendArguments& a = send.arguments;
  TERN_ASSERT(line.state == TupleLine::State::open && line.to == &send.endpoint);
  TupleQueues& path = *send.endpoint.tuples;
  TupleMessage& message = *messages_.create();
  message.line = &line;
  message.queue = line.queue;
  message.bytes = bytes;
  message.done = [](TupleSend& done, Error error) {
    auto& self = static_cast<TupleMessage&>(done);
    TupleSender& sender = *self.line->owner;
    sender.arrived(self, std::move(error));
  };
  std::byte* copy = nullptr;
  if (bytes <= copy_bytes_ && a.mode != SendMode::synchronous) copy = path.lend(bytes);
  message.lent = copy != nullptr;
  if (!copy && !a.type->is_contiguous()) {
    message.packed = std::make_unique_for_overwrite<std::byte[]>(bytes);
    copy = message.packed.get();
  }
  if (copy) send.data().pack(copy, bytes);
  message.data = copy ? copy : static_cast<const std::byte*>(a.buffer);
  if (!path.send(message)) {
    if (message.lent) path.give_back(copy);
    messages_.destroy(&message);
    return false;
  }
  message.index = line.sent++;
  message.position = send.endpoint.messages.sent();
  message.order = send.endpoint.sent_to_queues++;
  line.used = clock_;
  line.out.push_back(&message);
  sends_.note(Protocol::tuple, send.endpoint, a, bytes);
  send.large = true;
  if (message.lent) {
    ++counts_.tuple_copies;
    sends_.open_copy();  // until it has arrived
    sends_.settle(send, 0);
  } else {
    message.request = &send;
    send.state = &message;
    send.waits |= SendRequest::kPath;
  }
  return true;
}

// A message has been received, or its path or peer is lost.
void TupleSender::arrived(TupleMessage& message, Error error) {
  TupleLine& line = *message.line;
  if (error && message.state == TupleMessage::State::in_queue && line.path->tuple_properties().replaceable) {
    message.state = TupleMessage::State::returned;  // until on_queues_lost, or on_peer_lost
    return;
  }
  SendRequest* request = message.request;
  TERN_ASSERT(message.index < line.sent && line.state != TupleLine::State::asked);
  IntrusiveList<TupleMessage>::remove(&message);
  if (message.lent) line.path->give_back(const_cast<std::byte*>(message.data));
  messages_.destroy(&message);
  if (line.state == TupleLine::State::closing && line.out.empty()) leave(line);
  if (!request) {
    sends_.close_copy();
    return;
  }
  request->state = {};
  if (error) sends_.fail(*request, std::move(error));
  else sends_.settle(*request, SendRequest::kPath);
}

void TupleSender::ask(Endpoint& peer, const TupleKey& key, TupleEntry& entry) {
  if (lines_.live() >= max_queues_) {
    end_unused_line();
    put_off(entry);
    return;
  }
  TupleTicket ticket;
  TupleSendQueue* queue = peer.tuples->ask(peer.lane(), ticket);
  if (!queue) {
    put_off(entry);
    return;
  }
  TupleLine& line = *line_pool_.create();
  line.owner = this;
  line.to = &peer;
  line.path = peer.tuples;
  line.key = key;
  line.queue = queue;
  line.token = lines_.add(line);
  contexts_.add_line(key.context);
  queue->user = &line;
  queue->broken = [](TupleSendQueue& failed, const TupleTicket& repair) {
    auto& its = *static_cast<TupleLine*>(failed.user);
    its.owner->broken(its, repair);
  };
  entry.line = &line;
  ++counts_.tuple_asked;
  wire::TupleAskBody body;
  static_assert(sizeof body == sizeof ticket);
  std::memcpy(&body, &ticket, sizeof body);
  control_.post(peer, wire::make_header(wire::Kind::tuple_ask, key.source, key.context, key.tag, line.token), &body,
                sizeof body);
}

void TupleSender::put_off(TupleEntry& entry) {
  entry.seen = 0;
  if (entry.ask_at == kNever) return;
  entry.ends = std::min(entry.ends + 1, kMaxDoublings);
  entry.ask_at = kAskAt << entry.ends;
}

void TupleSender::leave(TupleLine& line) {
  TERN_ASSERT(line.out.empty());
  line.path->leave(*line.queue);
  lines_.remove(line.token);
  contexts_.remove_line(line.key.context);
  line_pool_.destroy(&line);
}

void TupleSender::on_answer(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleAnswerBody body;
  TupleLine* line = lines_.find(header.token);
  if (!wire::parse_body(payload, bytes, body) || !line || line->to != &peer || line->state != TupleLine::State::asked)
    return;
  if (body.queue == 0) {
    TupleEntry& entry = entry_of(line->key);
    if (body.never != 0) entry.ask_at = kNever;
    entry.line = nullptr;
    put_off(entry);
    leave(*line);
    return;
  }
  TupleTicket answer;
  std::memcpy(&answer, body.ticket, sizeof answer);
  line->remote = body.queue;
  line->state = TupleLine::State::open;
  line->used = clock_;
  if (line->lost || line->path->join(*line->queue, answer)) {
    end(*line, nullptr);
    return;
  }
  control_.post(peer, wire::make_control_header(wire::Kind::tuple_begin, line->remote));
}

void TupleSender::on_stop(Endpoint& peer, const wire::Header& header) {
  TupleLine* line = lines_.find(header.token);
  if (line && line->to == &peer && line->state == TupleLine::State::open) end(*line, nullptr);
}

// Nothing more goes into the queue. The receiver is told what may still be in it; those sends have a name from now on,
// by which they can be cancelled.
void TupleSender::end(TupleLine& line, uint64_t Counters::*cause) {
  Endpoint& peer = *line.to;
  if (cause) ++(counts_.*cause);
  TERN_ASSERT(line.state == TupleLine::State::open);
  line.state = TupleLine::State::closing;
  TupleEntry& entry = entry_of(line.key);
  entry.line = nullptr;
  put_off(entry);
  for (TupleMessage* message = line.out.front(); message; message = line.out.next(message)) {
    wire::TupleOwedBody body{};
    body.bytes = message->bytes;
    body.index = message->index;
    body.position = message->position;
    body.order = message->order;
    if (SendRequest* request = message->request) {
      body.token = sends_.name(*request);
      if (request->arguments.mode == SendMode::synchronous) {
        request->waits |= SendRequest::kMatch;
        body.wants_ack = 1;
      }
    }
    control_.post(peer, wire::make_control_header(wire::Kind::tuple_owed, line.remote), &body, sizeof body);
  }
  wire::TupleStoppedBody body{line.sent, 0};
  control_.post(peer, wire::make_control_header(wire::Kind::tuple_stopped, line.remote), &body, sizeof body);
  if (line.out.empty()) leave(line);
}

// The one whose last message is the longest ago, if that is long.
void TupleSender::end_unused_line() {
  TupleLine* unused = nullptr;
  lines_.for_each([&](TupleLine& line) {
    if (line.state == TupleLine::State::open && line.out.empty() && (!unused || line.used < unused->used))
      unused = &line;
  });
  if (unused && clock_ - unused->used >= kTupleUnusedFactor * max_queues_) end(*unused, &Counters::tuple_stops_unused);
}

// The message is told to the receiver by its envelope, and is then taken back there like any that waits.
void TupleSender::cancel(SendRequest& send) {
  TupleLine& line = *send.tuple()->line;
  if (line.state == TupleLine::State::open) end(line, &Counters::tuple_stops_cancel);
  send.waits |= SendRequest::kAnswer;
  control_.post(send.endpoint, wire::make_header(wire::Kind::cancel, 0, send.arguments.context, 0, send.token));
}

// --- The connection of a queue has failed.

void TupleSender::broken(TupleLine& line, const TupleTicket& ticket) {
  ++counts_.tuple_repairs;
  wire::TupleRepairBody body{};
  body.line = line.token;
  std::memcpy(body.ticket, &ticket, sizeof body.ticket);
  control_.post(*line.to, wire::make_control_header(wire::Kind::tuple_repair, line.remote), &body, sizeof body);
}

void TupleSender::on_resume(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleResumeBody body;
  TupleLine* line = lines_.find(header.token);
  if (!wire::parse_body(payload, bytes, body) || !line || line->to != &peer || line->lost) return;
  if (body.result == wire::TupleResumeBody::failed) {
    line->path->abandon(*line->queue);
    return;
  }
  TupleTicket answer;
  std::memcpy(&answer, body.ticket, sizeof answer);
  line->path->resume(*line->queue, body.result == wire::TupleResumeBody::repaired ? &answer : nullptr);
}

void TupleSender::on_peer_lost(Endpoint& peer) {
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
}

}  // namespace tern
