#include "p2p/protocols/rendezvous_receive.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/looks.h"
#include "wire/body.h"

namespace tern {

void RendezvousReceiver::on_rts(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  if (bytes != sizeof(wire::RendezvousBody)) return;
  ReceivedRts rts = {.token = header.token, .flags = header.flags, .body = {}};
  std::memcpy(&rts.body, payload, sizeof rts.body);
  if (peer.credit.half_due()) peer.settle_credit();  // a sender that announces may be out of credit
  if (header.flags & wire::kWantsReleases) control_.flush_releases(peer);
  bool served = false;
  ReceiveRequest* receive = rts.body.address == 0 ? announcements_.receive_for_put(peer, header, rts.body, served)
                                                  : announcements_.receive_for(header);
  if (served) return;
  if (!receive) {
    unexpected_.keep(peer, header, rts.body.bytes).body = rts.body;
    return;
  }
  receives_.match(*receive, peer, header, rts.body.bytes);
  answer_in_turn(*receive, rts, receive->announced() ? Arrival::both : Arrival::unannounced);
}

void RendezvousReceiver::answer_in_turn(ReceiveRequest& receive, const ReceivedRts& rts, Arrival arrival) {
  if (rts.body.address == 0 || receive.sender->autonomous() || receive.status.bytes == 0 ||
      (holds_ != 0 && !may_wait(receive, rts))) {
    answer(receive, rts, arrival);
    return;
  }
  PendingAnswer& later = receives_.offer(receive).answer;
  later.receive = &receive;
  later.rts = rts;
  later.arrival = arrival;
  pending_.push_back(&later);
  want(true);
}

// The sender has the copy lock. The receive ends by its `filled`, or goes on when it says where the data lies.
void RendezvousReceiver::await_sender(ReceiveRequest& receive, const ReceivedRts& rts, Arrival arrival) {
  PendingAnswer& later = receives_.offer(receive).answer;
  TERN_ASSERT(!later.linked());
  later.receive = &receive;
  later.rts = rts;
  later.arrival = arrival;
  with_sender_.push_back(&later);
  counters_.count_received(Protocol::sender_put, arrival);
}

// True: the message's data was moved, and `rts` says where to.
bool RendezvousReceiver::take_moved(const Endpoint& peer, ReceivedRts& rts) {
  const auto found = std::find_if(moved_.begin(), moved_.end(),
                                  [&](const Moved& moved) { return moved.peer == &peer && moved.token == rts.token; });
  if (found == moved_.end()) return false;
  rts.body = found->body;
  rts.flags = wire::kHybrid;
  moved_.erase(found);
  return true;
}

void RendezvousReceiver::on_moved(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  Moved moved{.peer = &peer, .token = header.token, .body = {}};
  if (!wire::parse_body(payload, bytes, moved.body)) return;
  for (PendingAnswer* waiting = with_sender_.front(); waiting; waiting = with_sender_.next(waiting)) {
    ReceiveRequest& receive = *waiting->receive;
    if (receive.sender != &peer || waiting->rts.token != header.token) continue;
    const Arrival arrival = waiting->arrival;
    const ReceivedRts rts = {.token = header.token, .flags = wire::kHybrid, .body = moved.body};
    with_sender_.remove(waiting);
    --counters_.received[size_t(Protocol::sender_put)][size_t(arrival)];
    answer_in_turn(receive, rts, arrival);
    return;
  }
  moved_.push_back(moved);
}

// It may be long until this rank has time. The sender is free already if the data is in a library buffer; otherwise it
// is told where it may put it. (The traditional protocols leave it waiting.)
bool RendezvousReceiver::may_wait(ReceiveRequest& receive, const ReceivedRts& rts) {
  Endpoint& peer = *receive.sender;
  if (rts.from_library() || !is_customised(policy_.mode, peer.tuples)) return true;
  // A buffer that is watched must not change before its sender has been told so.
  if (peer.lost() || !peer.copy_locks() || (receive.offer && receive.offer->watcher)) return false;
  wire::ClearBody body{};
  body.address = receives_.expose(receives_.offer(receive), body.key);
  if (body.address == 0) return false;
  body.receiver_token = receives_.offer(receive).token;
  body.bytes = uint64_t(receive.status.bytes);
  control_.post(peer, wire::make_header(wire::Kind::cts, 0, 0, 0, rts.token, wire::kEither), &body, sizeof body);
  return true;
}

int RendezvousReceiver::advance() {
  if (holds_ != 0) return 0;
  PendingAnswer* first = pending_.pop_front();
  want(!pending_.empty());
  if (!first) return 0;
  answer(*first->receive, ReceivedRts(first->rts), first->arrival);
  return 1;
}

void RendezvousReceiver::answer(ReceiveRequest& receive, const ReceivedRts& announced, Arrival arrival) {
  Endpoint& peer = *receive.sender;
  ReceivedRts rts = announced;
  if (!moved_.empty()) [[unlikely]]
    take_moved(peer, rts);
  if (peer.lost()) {
    receives_.fail(receive, endpoints_.loss_of(peer.peer));
    return;
  }
  const wire::RendezvousBody& body = rts.body;
  const bool hybrid = rts.from_library();
  const Protocol by_get = hybrid ? Protocol::hybrid : Protocol::sender_get;
  if (receive.status.bytes == 0) {
    counters_.count_received(by_get, arrival);
    fetched(receive, rts);
    return;
  }
  // Its sender has had time first.
  if (!hybrid && body.address != 0 && peer.arbiter &&
      !peer.arbiter->try_lock_copy(&peer.lane(), RemoteKey{{body.key[0], body.key[1]}})) {
    await_sender(receive, rts, arrival);
    return;
  }
  const bool stream_faster = is_customised(policy_.mode, peer.tuples) && stream_is_faster(receive);
  if (mover_of(receive, rts, stream_faster) == Mover::get) {
    counters_.count_received(by_get, arrival);
    gets_.begin(receive, rts, stream_faster);
    return;
  }
  const bool put = clear_to_send(receive, rts, 0);
  counters_.count_received(hybrid ? Protocol::hybrid : put ? Protocol::sender_put : Protocol::sender_data, arrival);
}

// A rank that has as much data lying for others to fetch is in an exchange: they have their part to copy, and this rank
// has its own.
bool RendezvousReceiver::stream_is_faster(const ReceiveRequest& receive) const {
  const auto bytes = size_t(receive.status.bytes);
  const Traffic traffic = sends_.fetchable_bytes() >= bytes ? Traffic::exchange : Traffic::one_way;
  return receive.sender->stream_is_faster(bytes, traffic);
}

Mover RendezvousReceiver::mover_of(const ReceiveRequest& receive, const ReceivedRts& rts, bool stream_faster) const {
  const Endpoint& peer = *receive.sender;
  CopySituation s{.side = CopySide::receiver};
  if (rts.from_library()) {
    s.can_get = rts.body.address != 0 &&
                peer.can_get_lent();  // its sender is free already, and would have to come back for a stream
  } else {
    s.can_get = rts.body.address != 0 && peer.can_get();
    s.stream_faster = stream_faster;
  }
  // Where either may copy (deferred_copies.h) both are likely to come at about the same time.
  const auto present = [&] { return peer.peer_is_polling(); };
  return who_copies(s, [&] { return receive.announced() ? look_at<Look::sender>(present) : present(); });
}

// A library buffer is released by its short name, along with another message; anything else by a fin.
void RendezvousReceiver::fetched(ReceiveRequest& receive, const ReceivedRts& rts) {
  Endpoint& peer = *receive.sender;
  if (rts.from_library() && Sends::has_short_name(rts.token))
    control_.owe_release(peer, uint16_t((rts.token & 0xffff) + 1));
  else control_.post(peer, wire::make_control_header(wire::Kind::fin, rts.token));
  receives_.complete(receive);
}

// Asks for the data from `offset` on. True: it may be put.
bool RendezvousReceiver::clear_to_send(ReceiveRequest& receive, const ReceivedRts& rts, size_t offset) {
  wire::ClearBody body{};
  body.receiver_token = receives_.offer(receive).token;
  body.bytes = uint64_t(receive.status.bytes);
  if (policy_.by_write) body.address = receives_.expose(receives_.offer(receive), body.key);
  control_.post(*receive.sender, wire::make_header(wire::Kind::cts, 0, offset, 0, rts.token), &body,
                body.address != 0 ? sizeof body : wire::kShortClearBytes);
  return body.address != 0;
}

}  // namespace tern
