#include "p2p/rendezvous_receive.h"

#include <cstring>

#include "p2p/sends.h"

namespace tern {

namespace {
/// How often a receiver looks whether the sender is there to stream before it fetches alone. Some 0.4 us each over
/// shared memory (both computing, 16 KiB to 256 KiB: 1.7 to 1.9 us less than with one).
constexpr int kLooksForBoth = 3;
}  // namespace

void RendezvousReceiver::on_rts(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (bytes != sizeof(wire::RendezvousBody)) return;
  wire::RendezvousBody body;
  std::memcpy(&body, payload, sizeof body);
  if (peer.credit.half_due()) peer.settle_credit();  // a sender that announces may be out of credit
  if (header.flags & wire::kWantsReleases) control_.flush_releases(peer);
  ReceiveRequest* receive = announcements_.receive_for(header);
  if (!receive) {
    unexpected_.keep(peer, header, body.bytes).body = body;
    return;
  }
  receives_.match(*receive, peer, header, body.bytes);
  receive->sender_token = header.token;
  answer(*receive, body, header.flags, receive->announced() ? Arrival::both : Arrival::unannounced);
}

void RendezvousReceiver::answer(ReceiveRequest& receive, const wire::RendezvousBody& body, uint8_t flags,
                                Arrival arrival) {
  Endpoint& peer = *receive.sender;
  if (peer.lost()) {
    receives_.fail(receive, endpoints_.loss_of(peer.peer));
    return;
  }
  const bool lent = (flags & wire::kHybrid) != 0;
  const Protocol by_get = lent ? Protocol::hybrid : Protocol::sender_get;
  if (receive.status.bytes == 0) {
    counters_.count_received(by_get, arrival);
    fetched(receive, lent);
    return;
  }
  // Its sender has had time first, and puts it.
  if (!lent && body.address != 0 && peer.arbiter &&
      !peer.arbiter->try_lock_copy(&peer.lane(), RemoteKey{{body.key[0], body.key[1]}})) {
    TERN_ASSERT(receive.announced());
    counters_.count_received(Protocol::sender_put, arrival);
    return;
  }
  if (body.address != 0 && worth_getting(receive, lent)) {
    counters_.count_received(by_get, arrival);
    gets_.begin(receive, body, lent);
    return;
  }
  const bool put = clear_to_send(receive, 0);
  counters_.count_received(lent ? Protocol::hybrid : put ? Protocol::sender_put : Protocol::sender_data, arrival);
}

// Rather than to have it streamed.
bool RendezvousReceiver::worth_getting(const ReceiveRequest& receive, bool lent) const {
  const Endpoint& peer = *receive.sender;
  if (lent) return peer.can_get_lent();
  if (!peer.can_get()) return false;
  if (policy_.mode != RendezvousMode::customised || peer.autonomous() ||
      size_t(receive.status.bytes) >= peer.memory->remote_properties().get_from_bytes)
    return true;
  // Where either may copy (deferred_copies.h) both are likely to come at about the same time, and a stream costs them a
  // third of the copy.
  for (int looks = receive.announced() ? kLooksForBoth : 1; looks > 0; --looks) {
    if (peer.peer_is_polling()) return false;
  }
  return true;
}

// A library buffer is released by its short name, along with another message; anything else by a fin.
void RendezvousReceiver::fetched(ReceiveRequest& receive, bool lent) {
  Endpoint& peer = *receive.sender;
  const uint32_t token = receive.sender_token;
  if (lent && Sends::has_short_name(token)) control_.owe_release(peer, uint16_t((token & 0xffff) + 1));
  else control_.post(peer, wire::make_control_header(wire::Kind::fin, token));
  receives_.complete(receive);
}

// Asks for the data from `offset` on. True: it may be put.
bool RendezvousReceiver::clear_to_send(ReceiveRequest& receive, size_t offset) {
  wire::ClearBody body{receives_.offer(receive).token, 0, uint64_t(receive.status.bytes), 0, {0, 0}};
  if (policy_.by_write) body.address = receives_.expose(receive, body.key);
  control_.post(*receive.sender, wire::make_header(wire::Kind::cts, 0, offset, 0, receive.sender_token), &body,
                body.address != 0 ? sizeof body : wire::kShortClearBytes);
  return body.address != 0;
}

}  // namespace tern
