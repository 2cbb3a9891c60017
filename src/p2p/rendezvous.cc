// Sender-initiated rendezvous, in three forms.
//
//   get: the path can, the data is contiguous       data                            put: the same with a put, FIN after
//   it sender                 receiver                 sender                  receiver
//     rts(address) ------->                           rts ----------------->
//                            get (one copy)             <------------------- cts (when matched)
//     <-------------------- fin                       data -----------------> into the user's buffer
//
// The receiver may answer any rts with a cts, and does so if it cannot get, if its get fails (the kernel refuses,
// DESIGN.md 3), and if a copy costs CPU time (no autonomous path) and the sender is in its library to take its part of
// a stream.
//
// Both at about the same time: the rts crosses the receiver's announcement. With an address in it the receiver fetches,
// the announcement is dropped; without, the announcement serves as the cts at once (on_ready), and the cts that the
// receiver sends for the rts finds the send cleared.
#include <algorithm>

#include "p2p/impl.h"

namespace tern {

namespace {
// How often a receiver looks whether the sender is there to stream before it fetches alone. Some 0.4 us each over
// shared memory (both computing, 16 KiB to 256 KiB: 1.7 to 1.9 us less than with one).
constexpr int kLooksForBoth = 3;
}  // namespace

// `protocol`: sender_get, sender_put, sender_data; hybrid: get from a library buffer. `ready`: its receive is
// announced.
void PointToPoint::Impl::begin_rendezvous(SendRequest& send, size_t bytes, Protocol protocol, const Ready* ready) {
  const SendArguments& a = send.arguments;
  Endpoint& peer = send.endpoint;
  send.token = send_tokens.add(send);
  send.waits |= SendRequest::kData;
  send.body = wire::RendezvousBody{bytes, 0, {0, 0}};
  uint8_t flags = 0;
  if (protocol == Protocol::sender_get) {
    send.exposed = peer.memory->expose(a.buffer, bytes, {.read = true});
    if (peer.arbitrates()) {
      ++attention;
      send.asked = true;
      update_chores();
    }
    if (ready) defer(send, bytes, *ready);
  }
  if (protocol == Protocol::hybrid) flags = wire::kHybrid;
  else if (bytes <= peer.properties().hybrid_bytes) flags = wire::kWantsReleases;
  if (!send.exposed.empty()) {
    send.body.address = reinterpret_cast<uint64_t>(a.buffer);
    send.body.key[0] = send.exposed.words[0];
    send.body.key[1] = send.exposed.words[1];
  }
  wire::Header header = wire::make_header(wire::Kind::rts, a.source, a.context, a.tag, send.token, flags);
  header.carried = carry_release(peer);
  push(send, header, &send.body, sizeof send.body);
}

void PointToPoint::Impl::on_rts(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (bytes != sizeof(wire::RendezvousBody)) return;
  wire::RendezvousBody body;
  std::memcpy(&body, payload, sizeof body);
  if (peer.credit.half_due()) send_credit(peer);  // who announces may be out of credit
  if (header.flags & wire::kWantsReleases) flush_releases(peer);
  ReceiveRequest* receive = matching_receive(header);
  if (!receive) {
    UnexpectedMessage* message = keep(peer, header, body.bytes);
    message->body = body;
    return;
  }
  match(*receive, peer, header, body.bytes);
  receive->sender_token = header.token;
  answer(*receive, body, header.flags,
         receive->marks & ReceiveRequest::kAnnounced ? Arrival::both : Arrival::unannounced);
}

// The receive is matched with an announcement: fetch the data, or ask for it.
void PointToPoint::Impl::answer(ReceiveRequest& receive, const wire::RendezvousBody& body, uint8_t flags,
                                Arrival arrival) {
  Endpoint& peer = *receive.sender;
  size_t bytes = size_t(receive.status.bytes);
  if (peer.lost()) {
    receive.error = endpoints.loss_of(peer.peer);
    complete(receive);
    return;
  }
  const bool copied = (flags & wire::kHybrid) != 0;
  if (copied) receive.marks |= ReceiveRequest::kFromLibrary;
  if (bytes == 0) {
    count_received(copied ? Protocol::hybrid : Protocol::sender_get, arrival);
    fetched(receive);
    return;
  }
  // Its sender has had time first, and puts it.
  if (!copied && body.address != 0 && peer.arbiter &&
      !peer.arbiter->try_lock_copy(&peer.lane(), RemoteKey{{body.key[0], body.key[1]}})) {
    TERN_ASSERT(receive.marks & ReceiveRequest::kAnnounced);
    count_received(Protocol::sender_put, arrival);
    return;
  }
  bool get = body.address != 0 && (copied ? peer.can_get_lent() : peer.can_get());
  if (get && !copied && mode == RendezvousMode::customised && !peer.autonomous() &&
      bytes < peer.memory->remote_properties().get_from_bytes) {
    // Where either may copy (deferred.cc) both are likely to come at about the same time, and a stream costs them a
    // third of the copy.
    int looks = receive.marks & ReceiveRequest::kAnnounced ? kLooksForBoth : 1;
    while (get && looks-- > 0) get = !peer.peer_is_polling();
  }
  if (!get) {
    bool put = clear_to_send(receive, 0);
    count_received(copied ? Protocol::hybrid : put ? Protocol::sender_put : Protocol::sender_data, arrival);
    return;
  }
  count_received(copied ? Protocol::hybrid : Protocol::sender_get, arrival);
  fetch(receive, body);
}

void PointToPoint::Impl::fetched(ReceiveRequest& receive) {
  if (receive.marks & ReceiveRequest::kFromLibrary) {
    receive.marks &= uint8_t(~ReceiveRequest::kFromLibrary);
    give_release(receive);
  } else {
    control(*receive.sender, wire::make_control_header(wire::Kind::fin, receive.sender_token));
  }
  complete(receive);
}

// Asks for the data from `offset` on. True: it may be put.
bool PointToPoint::Impl::clear_to_send(ReceiveRequest& receive, size_t offset) {
  if (receive.token == 0) receive.token = receive_tokens.add(receive);
  wire::ClearBody body{receive.token, 0, uint64_t(receive.status.bytes), 0, {0, 0}};
  if (by_write) body.address = expose_target(receive, body.key);
  control(*receive.sender, wire::make_header(wire::Kind::cts, 0, offset, 0, receive.sender_token), &body,
          body.address != 0 ? sizeof body : wire::kShortClearBytes);
  return body.address != 0;
}

void PointToPoint::Impl::on_cts(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  SendRequest* send = sender(peer, header.token);
  if (!send || (bytes != sizeof(wire::ClearBody) && bytes != wire::kShortClearBytes)) return;
  // Without kData: an announcement has cleared it before.
  if (!(send->waits & SendRequest::kData) || send->clear_pending) return;
  wire::ClearBody clear{};
  std::memcpy(&clear, payload, bytes);
  clear_now(*send, clear, header.context);
}

void PointToPoint::Impl::clear_now(SendRequest& send, const wire::ClearBody& clear, uint64_t offset) {
  if (send.deferred) forget_deferred(send);
  send.clear = clear;
  send.clear_offset = offset;
  if (send.waits & SendRequest::kPath) {
    send.clear_pending = true;  // the path still holds the rts: path_done goes on
  } else {
    send_data(send);
  }
}

void PointToPoint::Impl::send_data(SendRequest& send) {
  const SendArguments& a = send.arguments;
  Endpoint& peer = send.endpoint;
  send.waits &= uint8_t(~SendRequest::kData);
  size_t bytes = size_t(std::min<uint64_t>(send.clear.bytes, send.body.bytes));
  if (send.clear.address != 0 && bytes != 0 && a.type->is_contiguous() && peer.can_put() &&
      (peer.autonomous() || mode == RendezvousMode::rput || !peer.peer_is_polling())) {
    if (put(send, send.clear, send.body.bytes, wire::kLanded, false)) return;
  }
  stream_rest(send, send.clear.receiver_token, bytes, size_t(send.clear_offset));
}

// The receive is matched: its data, from `offset` on, up to `end`.
void PointToPoint::Impl::stream_rest(SendRequest& send, uint32_t receiver_token, size_t end, size_t offset) {
  const SendArguments& a = send.arguments;
  Cursor payload(const_cast<void*>(a.buffer), a.count, *a.type);
  payload.truncate(end);
  payload.skip(offset);
  queue(send, wire::make_header(wire::Kind::data, 0, offset, 0, receiver_token), payload);
}

void PointToPoint::Impl::on_data(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  Landing landing = landing_of(peer, header, bytes);
  landing.target.unpack(payload, bytes);
  landed(peer, header, landing, bytes, {});
}

void PointToPoint::Impl::on_fin(Endpoint& peer, const wire::Header& header) {
  SendRequest* send = sender(peer, header.token);
  if (send && (send->waits & SendRequest::kData)) settle(*send, SendRequest::kData);
}

}  // namespace tern
