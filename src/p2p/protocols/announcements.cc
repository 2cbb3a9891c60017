#include "p2p/protocols/announcements.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/assert.h"

namespace tern {

namespace {
/// Announced receives to one peer: as many as its sender keeps.
constexpr uint32_t kMaxAnnounced = uint32_t(SentLog::kHeld);
/// Receives of the same key beside announced ones that are not announced themselves; finding them is linear.
constexpr uint32_t kMaxUnannounced = 64;
/// Receives whose last byte every poll reads, some 10 ns each, and those that were filled and are remembered. The
/// senders of others tell.
constexpr uint32_t kMaxWatched = 64;

bool last_byte_changed(const ReceiveRequest& receive) {
  const auto* last = static_cast<const volatile uint8_t*>(receive.buffer) + receive.capacity - 1;
  if (*last == receive.offer->last_byte) return false;
  std::atomic_thread_fence(std::memory_order_acquire);
  return true;
}
}  // namespace

ReceiveOffer::~ReceiveOffer() {
  if (watcher) watcher->unwatch(*this);
  TERN_ASSERT(!announced || peer.announced.open != 0);
  TERN_ASSERT(!withdrawing || peer.announced.withdrawing != 0);
  TERN_DEBUG_ASSERT(!watcher);
  if (announced) --peer.announced.open;
  if (withdrawing) --peer.announced.withdrawing;
}

void Announcements::watch(ReceiveOffer& offer) {
  TERN_ASSERT(!offer.watcher && watched_count_ < kMaxWatched);
  offer.watcher = this;
  watched_.push_back(&offer);
  ++watched_count_;
  want(true);
}

void Announcements::unwatch(ReceiveOffer& offer) {
  TERN_ASSERT(offer.watcher == this && watched_count_ != 0);
  offer.watcher = nullptr;
  IntrusiveList<ReceiveOffer>::remove(&offer);
  --watched_count_;
  want(!watched_.empty());
}

// How many receives of its key are before it, and which of those was announced first. It is counted from the announced
// ones next to it and at the front, whose places are known. False: they are too far away.
bool Announcements::find_place(ReceiveRequest& receive, wire::ReadyBody& body, uint32_t& place) {
  Matching& matching = receives_.matching;
  const auto announced = [](PostedReceive* r) { return static_cast<ReceiveRequest*>(r)->announced(); };
  uint32_t others = 0;
  PostedReceive* last = matching.previous_of(receive);
  for (; last && !announced(last); last = matching.previous_of(*last)) {
    if (++others > kMaxUnannounced) return false;
  }
  body.ahead = uint16_t(others);
  if (!last) return true;
  const uint32_t after_last = others + 1;
  place = static_cast<ReceiveRequest*>(last)->offer->place + after_last;
  others = 0;
  PostedReceive* first = matching.first_of_key(receive);
  for (; !announced(first); first = matching.next_of(*first)) {
    if (++others > kMaxUnannounced) return false;
  }
  const ReceiveOffer& oldest = *static_cast<ReceiveRequest*>(first)->offer;
  const uint32_t ahead = others + (place - oldest.place), before = body.serial - oldest.serial;
  body.ahead = uint16_t(ahead);
  body.oldest_before = uint16_t(before);
  return ahead == body.ahead && before == body.oldest_before;
}

void Announcements::announce(ReceiveRequest& receive) {
  Endpoint& peer = *receive.from;
  const size_t announce_from_bytes = peer.properties().announce_from_bytes;
  const size_t capacity = receive.capacity;
  if (announce_from_bytes == 0 || capacity < announce_from_bytes) return;
  if (receive.attended && peer.copy_locks()) return;  // its sender does not look for it
  peer.messages.begin_log();                          // the peer is likely to announce receives, too
  if (peer.announced.open >= kMaxAnnounced || peer.announced.withdrawing != 0) return;
  if (receives_.matching.wild_fits(receive.context, receive.source, receive.tag)) return;
  wire::ReadyBody body{};
  body.serial = peer.announced.next_serial;
  uint32_t place = 0;
  if (receives_.matching.posted_count() != 1 && !find_place(receive, body, place)) return;
  ++peer.announced.next_serial;
  receive.sender = nullptr;  // recycled requests remember the last one
  ReceiveOffer& offer = receives_.offer(receive);
  TERN_ASSERT(!offer.announced && receive.posted());
  offer.serial = body.serial;
  offer.place = place;
  body.capacity = capacity;
  body.address = receives_.expose(offer, body.key);
  body.arrived = peer.messages.arrived();
  body.epoch = uint16_t(peer.messages.arrived_epoch());
  if (receive.stay != Stay::no) body.flags |= wire::ReadyBody::kStays;
  if (body.address != 0 && peer.memory->remote_properties().ordered_writes &&
      watched_count_ + filled_.size() < kMaxWatched) {
    body.last_byte = offer.last_byte = static_cast<const uint8_t*>(receive.buffer)[capacity - 1];
    body.flags |= wire::ReadyBody::kWatched;
    watch(offer);
  }
  TERN_DEBUG_ASSERT(!offer.announced && peer.announced.open < kMaxAnnounced);
  offer.announced = offer.binding = true;
  ++peer.announced.open;
  ++counters_.announced;
  const bool usual = body.address == 0 || offer.exposed.key() == peer.memory->remote_properties().usual_key;
  const size_t bytes = usual ? wire::kShortReadyBytes : sizeof body;
  control_.post(peer, wire::make_header(wire::Kind::ready, 0, receive.context, receive.tag, offer.token), &body, bytes);
}

// The message of an announced receive is all there without having come as one. The receive is out of matching.
void Announcements::fill(ReceiveRequest& receive, size_t bytes) {
  receives_.match(receive, *receive.from,
                  wire::make_header(wire::Kind::filled, receive.source, receive.context, receive.tag, 0), bytes);
  counters_.count_received(Protocol::receiver_put, Arrival::receiver);
}

// A watched receive was filled before any message of its own was read.
void Announcements::complete_seen(ReceiveRequest& receive) {
  TERN_DEBUG_ASSERT(receive.offer && receive.offer->announced);
  if (by_write_) filled_.push_back({receive.from, receive.context, receive.tag, receive.offer->serial});
  TERN_ASSERT(filled_.size() <= kMaxWatched);
  fill(receive, receive.capacity);
  receives_.complete(receive);
}

void Announcements::forget_filled(const Endpoint& peer, uint32_t newest) {
  std::erase_if(filled_, [&](const Filled& filled) { return filled.peer == &peer && !after(filled.serial, newest); });
}

// True: it belongs to a receive that was filled already. `newest`: which announcement its sender had read.
bool Announcements::serve(Endpoint& peer, const wire::Header& header, uint32_t newest) {
  if (filled_.empty()) return false;
  forget_filled(peer, newest);
  const auto own = std::find_if(filled_.begin(), filled_.end(), [&](const Filled& filled) {
    return filled.peer == &peer && filled.context == header.context && filled.tag == header.tag;
  });
  if (own == filled_.end()) return false;
  filled_.erase(own);
  --counters_.received[size_t(Protocol::receiver_put)][size_t(Arrival::receiver)];  // now it is known to have crossed
  counters_.count_received(Protocol::receiver_put, Arrival::both);
  return true;
}

ReceiveRequest* Announcements::receive_for_put(Endpoint& peer, const wire::Header& header,
                                               const wire::RendezvousBody& body, bool& served) {
  const auto newest = uint32_t(body.key[0]);
  served = serve(peer, header, newest);
  if (served) return nullptr;
  for (;;) {
    auto* receive =
        static_cast<ReceiveRequest*>(receives_.matching.match_arrival(header.context, header.source, header.tag));
    if (!receive || !receive->watched()) return receive;
    ReceiveOffer& offer = *receive->offer;
    if (after(offer.serial, newest)) {  // it is this message's whether it is filled or not
      offer.crossed = body.bytes == receive->capacity;
      return receive;
    }
    if (!last_byte_changed(*receive)) return receive;
    complete_seen(*receive);  // put by a sender that knew of it: the message belongs to the next one
  }
}

int Announcements::check_watched() {
  int done = 0;
  for (ReceiveOffer* offer = watched_.front(); offer;) {
    ReceiveRequest& receive = offer->receive;
    const bool oldest = receive.posted() ? receives_.matching.first_of_key(receive) == &receive : offer->crossed;
    if (!oldest || !last_byte_changed(receive)) {
      offer = watched_.next(offer);
      continue;
    }
    if (receive.posted()) {
      receives_.unpost(receive);
      complete_seen(receive);
    } else {
      receives_.complete(receive);
    }
    ++done;
    offer = watched_.front();  // the list has changed, and another may have become the oldest of its key
  }
  return done;
}

// An arriving message has met a watched receive: if that is filled already, the message belongs to the next one.
ReceiveRequest* Announcements::unless_filled(ReceiveRequest& receive, const wire::Header& header) {
  if (!last_byte_changed(receive)) return &receive;
  complete_seen(receive);
  return receive_for(header);
}

void Announcements::on_filled(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  ReceiveRequest* receive = receives_.find(header.token);
  if (!receive || bytes != sizeof(wire::FilledBody)) return;
  wire::FilledBody body;
  std::memcpy(&body, payload, sizeof body);
  if (header.flags & wire::kTaken) {
    if (!filled_.empty()) [[unlikely]]
      forget_filled(peer, uint32_t(header.source));
    if (!receive->posted() || receive->from != &peer) return;
    if (watched_count_ != 0) [[unlikely]]
      check_watched();  // those before it
    // Anything else would mean that the two sides count differently, and that the data is in the wrong buffer.
    TERN_ASSERT(receives_.matching.first_of_key(*receive) == receive);
    receives_.unpost(*receive);
    fill(*receive, body.bytes);
  }
  if ((header.flags & wire::kLanded) && receive->sender == &peer) receives_.complete(*receive);
}

bool Announcements::withdraw(ReceiveRequest& receive) {
  if (receive.wild()) return false;
  Endpoint& peer = *receive.from;
  if (peer.lost() || peer.announced.open == 0) return false;
  bool binding = false;
  receives_.matching.visit_from(receive, [&](PostedReceive& posted) {
    const auto& later = static_cast<ReceiveRequest&>(posted);
    binding |= later.offer && later.offer->binding;
  });
  if (!binding) return false;
  receive.place = ReceiveRequest::Place::cancelling;
  if (!receive.offer) receive.sender = nullptr;
  receives_.offer(receive).withdrawing = true;
  ++peer.announced.withdrawing;
  TERN_DEBUG_ASSERT(receive.cancelling() && receive.offer->withdrawing);
  ++counters_.withdrawn;
  control_.post(peer, wire::make_header(wire::Kind::withdraw, 0, receive.context, receive.tag, receive.offer->token));
  return true;
}

void Announcements::on_withdrawn(Endpoint& peer, const wire::Header& header) {
  check_watched();
  ReceiveRequest* receive = receives_.find(header.token);
  if (!receive || receive->from != &peer || !receive->cancelling()) return;  // perhaps its message has come first
  receives_.matching.visit_from(*receive, [&](PostedReceive& posted) {
    auto& later = static_cast<ReceiveRequest&>(posted);
    if (later.offer) later.offer->binding = false;
  });
  receives_.complete_cancelled(*receive);
}

}  // namespace tern
