// The receiver first (RECV_RNDV of paper 000): a receive that is posted before its message comes is announced to the
// sender.
//
//   put (the path can, and nobody has to help)      stream (no put, or the receiver is there to take its part)
//   receiver               sender                   receiver               sender
//     ready(address) ------->                         ready --------------->
//     computes ...            send: put (one copy)                           send: no asking
//     <---------------------- filled                  <--------------------- direct, into the user's buffer
//
// Which message an announced receive will match is known exactly (sent_log.h), and must be: a put goes straight into
// the user's memory. What would change it afterwards, and what is done about it:
//   - an earlier wildcard receive that fits too: the receive is not announced
//   - an earlier receive is cancelled: the announcements are withdrawn first (withdraw.cc)
//   - the sender takes a message back: its offers are void, counting begins anew (recount)
// A stream is matched like any message, the announcement only says that it will not wait; but the data of a message
// that had already announced itself (rendezvous.cc, both at about the same time) is addressed to the receive, too.
//
// A `filled` stands in the sender's stream of messages where the message would. A put that is not done when it must be
// told of (messages may overtake puts) is told in two parts: the receive is taken; the data has landed.
//
// FIN elimination: where writes land in order the receiver watches the last byte of its buffer instead of waiting for a
// `filled`, if the message has just the size of the buffer and that byte changes. It looks only at the oldest receive
// of a key, and before it matches any other message with it. Who sleeps sees no byte change: such a put wakes its
// receiver (TransferOperation::wakes), which costs it no message.
#include <algorithm>
#include <atomic>

#include "p2p/impl.h"

namespace tern {

namespace {
constexpr uint32_t kMostAnnounced = uint32_t(SentLog::kHeld);  // to one peer
constexpr uint32_t kMostAhead = 64;                            // receives of the same key; finding them is linear
}  // namespace

// --- The receiver

// Makes the receive's buffer puttable, if the path can; its address, or 0.
uint64_t PointToPoint::Impl::expose_target(ReceiveRequest& receive, uint64_t (&key)[2]) {
  Endpoint& peer = receive.from ? *receive.from : *receive.sender;
  if (peer.lost() || !peer.can_put() || !receive.type->is_contiguous() || receive.capacity() == 0) return 0;
  if (!(receive.marks & ReceiveRequest::kExposed)) {
    RemoteKey exposed = peer.memory->expose(receive.buffer, receive.capacity(), {.write = true});
    if (exposed.empty()) return 0;
    receive.exposed[0] = exposed.words[0];
    receive.exposed[1] = exposed.words[1];
    receive.marks |= ReceiveRequest::kExposed;
    if (peer.arbitrates()) {
      receive.marks |= ReceiveRequest::kAsked;
      ++attention;
      update_chores();
    }
  }
  key[0] = receive.exposed[0];
  key[1] = receive.exposed[1];
  return reinterpret_cast<uint64_t>(receive.buffer);
}

void PointToPoint::Impl::announce(ReceiveRequest& receive) {
  Endpoint& peer = *receive.from;
  const size_t announce_from_bytes = peer.properties().announce_from_bytes;
  size_t capacity = receive.capacity();
  if (announce_from_bytes == 0 || capacity < announce_from_bytes) return;
  if (receive.attended && peer.copy_locks()) return;  // its sender does not look for it
  peer.messages.begin_log();                          // the peer is likely to announce receives, too
  AnnouncedCount& announced = peer.announced;
  if (announced.open >= kMostAnnounced) return;
  uint32_t ahead = 0, oldest = announced.next_serial;
  bool cancelling = false;
  bool known = matching.visit_ahead(receive, kMostAhead, [&](PostedReceive& before) {
    auto& earlier = static_cast<ReceiveRequest&>(before);
    cancelling |= (earlier.marks & ReceiveRequest::kCancelling) != 0;
    if ((earlier.marks & ReceiveRequest::kAnnounced) && int32_t(oldest - earlier.serial) > 0) oldest = earlier.serial;
    ++ahead;
  });
  if (!known || cancelling) return;
  wire::ReadyBody body{};
  body.capacity = capacity;
  body.address = expose_target(receive, body.key);
  body.arrived = peer.messages.arrived();
  body.epoch = peer.messages.arrived_epoch();
  body.serial = receive.serial = announced.next_serial++;
  body.oldest = oldest;
  body.ahead = uint16_t(ahead);
  body.stays = receive.stays;
  if (body.address != 0 && peer.memory->remote_properties().ordered_writes) {
    body.last_byte = receive.last_byte = static_cast<const uint8_t*>(receive.buffer)[capacity - 1];
    body.watched = 1;
    receive.marks |= ReceiveRequest::kWatched;
    watched.push_back(&receive);
    update_chores();
  }
  receive.sender = nullptr;  // recycled requests remember the last one
  receive.token = receive_tokens.add(receive);
  receive.marks |= ReceiveRequest::kAnnounced | ReceiveRequest::kBinding;
  ++announced.open;
  ++counters.announced;
  control(*receive.from, wire::make_header(wire::Kind::ready, 0, receive.context, receive.tag, receive.token), &body,
          sizeof body);
}

// A receive that its sender knew of is over: its name, its memory and its place in the count are free again.
void PointToPoint::Impl::retire(ReceiveRequest& receive) {
  receive_tokens.remove(receive.token);
  receive.token = 0;
  Endpoint& peer = receive.from ? *receive.from : *receive.sender;
  if (receive.marks & ReceiveRequest::kAnnounced) --peer.announced.open;
  if (receive.marks & ReceiveRequest::kExposed) {
    if (!peer.lost()) peer.memory->conceal(RemoteKey{{receive.exposed[0], receive.exposed[1]}});
    if (receive.marks & ReceiveRequest::kAsked) --attention;
  }
  if (receive.marks & ReceiveRequest::kWatched) std::erase(watched, &receive);
  receive.marks = 0;
  update_chores();
}

// The message of an announced receive is all there without having come as one.
void PointToPoint::Impl::fill(ReceiveRequest& receive, size_t bytes) {
  matching.unpost(receive);
  match(receive, *receive.from, wire::make_header(wire::Kind::filled, receive.source, receive.context, receive.tag, 0),
        bytes);
  count_received(Protocol::receiver_put, Arrival::receiver);
}

int PointToPoint::Impl::check_watched() {
  int done = 0;
  for (size_t i = 0; i < watched.size();) {
    ReceiveRequest& receive = *watched[i];
    auto* last = static_cast<const volatile uint8_t*>(receive.buffer) + receive.capacity() - 1;
    if (!receive.posted || *last == receive.last_byte || matching.first_of_key(receive) != &receive) {
      ++i;
      continue;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    fill(receive, receive.capacity());
    complete(receive);
    ++done;
    i = 0;  // `watched` has changed, and another may have become the oldest of its key
  }
  return done;
}

// An arriving message has met a watched receive: if that is filled already, the message belongs to the next one.
ReceiveRequest* PointToPoint::Impl::rematch(ReceiveRequest& receive, const wire::Header& header) {
  auto* last = static_cast<const volatile uint8_t*>(receive.buffer) + receive.capacity() - 1;
  if (*last == receive.last_byte) return &receive;
  std::atomic_thread_fence(std::memory_order_acquire);
  match(receive, *receive.from, wire::make_header(wire::Kind::filled, receive.source, receive.context, receive.tag, 0),
        receive.capacity());
  count_received(Protocol::receiver_put, Arrival::receiver);
  complete(receive);
  return matching_receive(header);
}

void PointToPoint::Impl::on_filled(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  ReceiveRequest* receive = receive_tokens.find(header.token);
  if (!receive || bytes != sizeof(wire::FilledBody)) return;
  wire::FilledBody body;
  std::memcpy(&body, payload, sizeof body);
  if (header.flags & wire::kTaken) {
    if (!receive->posted || receive->from != &peer) return;
    if (receive->marks & ReceiveRequest::kWatched) check_watched();  // those before it
    // Anything else would mean that the two sides count differently, and that the data is in the wrong buffer.
    TERN_ASSERT(matching.first_of_key(*receive) == receive);
    fill(*receive, body.bytes);
  }
  if ((header.flags & wire::kLanded) && receive->sender == &peer) complete(*receive);
}

// --- The sender

void PointToPoint::Impl::on_ready(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (bytes != sizeof(wire::ReadyBody) || mode != RendezvousMode::customised) return;
  Ready ready{header.context, header.tag, header.token, 0, {}};
  std::memcpy(&ready.body, payload, sizeof ready.body);
  uint32_t token = 0;
  switch (peer.messages.offer(ready, token)) {
    case SentLog::Verdict::held: ++counters.held; return;
    case SentLog::Verdict::unknown: ++counters.unknown; return;
    case SentLog::Verdict::useless: ++counters.useless; break;
  }
  // It has crossed the announcement of its message, which waits for just this: the receiver's cts will come too late.
  // Not if the receiver watches its buffer: it may see that change before it has read the message's announcement.
  if (ready.body.watched) return;
  SendRequest* send = token ? sender(peer, token) : nullptr;
  if (!send || !(send->waits & SendRequest::kData) || send->body.address != 0) return;
  wire::ClearBody clear{header.token,
                        0,
                        std::min(ready.body.capacity, send->body.bytes),
                        ready.body.address,
                        {ready.body.key[0], ready.body.key[1]}};
  clear_now(*send, clear, 0);
}

// Streams the message; its receive is posted, so that neither size nor credit matter.
void PointToPoint::Impl::begin_direct(SendRequest& send) {
  const SendArguments& a = send.arguments;
  wire::Header header = wire::make_header(wire::Kind::direct, a.source, a.context, a.tag, 0);
  if (a.mode == SendMode::synchronous) {
    send.token = send_tokens.add(send);
    send.waits |= SendRequest::kMatch;
    header.flags = wire::kWantsAck;
    header.token = send.token;
  }
  queue(send, header, Cursor(const_cast<void*>(a.buffer), a.count, *a.type));
}

void PointToPoint::Impl::begin_put(SendRequest& send, size_t bytes, Ready ready) {
  const SendArguments& a = send.arguments;
  Endpoint& peer = send.endpoint;
  const wire::ReadyBody& body = ready.body;
  wire::ClearBody to{
      ready.token, 0, std::min<uint64_t>(bytes, body.capacity), body.address, {body.key[0], body.key[1]}};
  auto last = uint8_t(static_cast<const std::byte*>(a.buffer)[bytes - 1]);
  const bool quiet = body.watched && bytes == body.capacity && last != body.last_byte &&
                     peer.memory->remote_properties().ordered_writes;
  if (quiet) {
    peer.messages.note_put(ready);
    ++counters.fins_saved;
  }
  if (put(send, to, bytes, wire::kTaken | wire::kLanded, quiet)) return;
  // Nothing has been told yet: the receive is still posted for a stream.
  queue(send, wire::make_header(wire::Kind::direct, a.source, a.context, a.tag, 0),
        Cursor(const_cast<void*>(a.buffer), a.count, *a.type));
}

}  // namespace tern
