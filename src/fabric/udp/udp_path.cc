// The way of the data: from try_send and enqueue to the channels, from the port through seal and number to the
// channels.
#include "fabric/udp/udp_path.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "fabric/poll_bounds.h"

namespace tern {
namespace {

// Calls of the port's receive in one poll: at most 1024 datagrams.
constexpr int kMaxReceives = 8;

}  // namespace

bool UdpPath::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  TERN_DEBUG_ASSERT(bytes <= std::max(properties_.eager_bytes, kAlwaysWholeBytes));
  auto& peer = static_cast<Peer&>(lane);
  if (peer.lost || !peer.channel) return false;
  if (!peer.channel->try_send(header, payload, bytes, clock_.now_ns())) return false;
  hints_.holding = shared_.holding;
  keep_busy(peer);
  return true;
}

void UdpPath::enqueue(SendOperation& operation) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  if (peer.lost || !peer.channel) {
    unsendable_.push_back(&operation);
    return;
  }
  peer.channel->enqueue(operation, clock_.now_ns());
  keep_busy(peer);
}

bool UdpPath::withdraw(SendOperation& operation) {
  auto& peer = static_cast<Peer&>(*operation.lane);
  return !peer.lost && peer.channel && peer.channel->withdraw(operation);
}

int UdpPath::poll() {
  const uint64_t now = clock_.now_ns();
  int handled = 0;
  if (!left_.empty()) [[unlikely]] {
    for (const DatagramPort::Arrival& arrival : std::exchange(left_, {})) on_arrival(arrival, now, handled);
  }
  move(now, Takes::all, handled);
  if (now >= next_look_ns_) look_after(now);
  if (!doomed_.empty() || !unsendable_.empty()) handled += lose_doomed();
  if (!shared_.finished.empty()) handled += complete();
  return handled;
}

// No card of a peer, no loss of one, no end of an operation.
int UdpPath::poll_shortly() {
  if (!left_.empty() || !doomed_.empty() || !unsendable_.empty()) return -1;
  int handled = 0;
  move(clock_.now_ns(), Takes::known, handled);
  return left_.empty() && doomed_.empty() ? handled : -1;
}

// Datagrams, in and out.
void UdpPath::move(uint64_t now_ns, Takes takes, int& handled) {
  hints_.holding = shared_.holding = false;
  for (int i = 0; i < kMaxReceives && receive(now_ns, takes, handled); ++i) {
  }
  shared_.charge_messages(handled);
  if (!busy_.empty()) advance_busy(clock_.now_ns(), false);
}

// False: there was nothing, or the rest is left to poll.
bool UdpPath::receive(uint64_t now_ns, Takes takes, int& handled) {
  DatagramPort::Arrival arrivals[DatagramPort::kMaxArrivals];
  const size_t count = port_->receive(arrivals);
  for (size_t k = 0; k < count; ++k) {
    wire::DatagramHead head;
    // Others may be introduced by it. (What has no head will be dropped.)
    const bool known = takes == Takes::all || !wire::parse_datagram_head(arrivals[k].data, arrivals[k].bytes, head) ||
                       (head.job == table_.my_name().job && head.from < peers_.size() && peers_[head.from]);
    if (!known) [[unlikely]] {
      left_.assign(arrivals + k, arrivals + count);
      return false;
    }
    on_arrival(arrivals[k], now_ns, handled);
  }
  return count != 0;
}

void UdpPath::on_arrival(const DatagramPort::Arrival& arrival, uint64_t now_ns, int& handled) {
  wire::Datagram datagram;
  if (!wire::parse_datagram_head(arrival.data, arrival.bytes, datagram.head)) {
    ++shared_.counters->udp_forged;
    return;
  }
  Peer* sender = find_sender(datagram, arrival);
  if (!sender || sender->lost || !sender->channel) return;
  Peer& peer = *sender;
  UdpLink& link = *peer.link;
  const uint64_t number = datagram.head.number;
  if (!link.checking.open(arrival.data, arrival.bytes, number) ||
      !wire::parse_datagram(arrival.data, arrival.bytes, datagram)) {
    ++shared_.counters->udp_forged;
    return;
  }
  if (link.received.contains(number)) {
    ++shared_.counters->udp_replayed;
    return;
  }
  ++shared_.counters->udp_received;
  // Uses the peer's way if this rank's own datagrams get no answer; else each keeps its own, or both would follow each
  // other endlessly.
  if (number > link.received.largest() && (peer.channel->silence() != 0 || !peer.channel->unacknowledged())) {
    port_->follow(peer.id, arrival.route);
  }
  peer.heard_ns = now_ns;
  peer.knows_us = true;
  peer.refusals = 0;
  keep_busy(peer);
  if (!peer.channel->on_datagram(datagram, now_ns, handled)) doom(peer, "it sent what is no message");
}

void UdpPath::advance_busy(uint64_t now_ns, bool all) {
  for (size_t i = 0; i < busy_.size();) {
    Peer& peer = *busy_[i];
    if (!peer.lost && !peer.knows_us && peer.channel->deadline_ns() <= now_ns) introduce(peer);
    if (!peer.lost) peer.channel->advance(now_ns, all);
    if (!peer.lost && (peer.channel->unsent() || peer.channel->unacknowledged())) {
      ++i;
      continue;
    }
    peer.busy = false;
    busy_[i] = busy_.back();
    busy_.pop_back();
  }
}

int UdpPath::complete() {
  int done = 0;
  while (done < kMaxCompletions) {
    SendOperation* operation = shared_.finished.pop_front();
    if (!operation) break;
    ++done;
    operation->done(*operation, {});
  }
  return done;
}

bool UdpPath::arm() {
  if (!busy_.empty()) advance_busy(clock_.now_ns(), true);
  return left_.empty() && shared_.finished.empty() && doomed_.empty() && unsendable_.empty() && port_->arm();
}

uint64_t UdpPath::next_deadline_ns() const {
  uint64_t earliest = next_look_ns_;
  for (const Peer* peer : busy_) {
    if (!peer->lost) earliest = std::min(earliest, peer->channel->deadline_ns());
  }
  return earliest;
}

bool UdpPath::has_unsent() const {
  return !left_.empty() || std::any_of(busy_.begin(), busy_.end(), [](const Peer* peer) {
    return !peer->lost && (peer->channel->unsent() || peer->channel->unacknowledged());
  });
}

void UdpPath::tell_on_the_way(std::vector<InTransit>& all) {
  const uint64_t now = clock_.now_ns();
  for (const Peer* peer : busy_) {
    if (peer->lost || !(peer->channel->unsent() || peer->channel->unacknowledged())) continue;
    InTransit about{peer->id, "udp", InTransit::kUnknown};
    if (peer->heard_ns != 0) about.silent_ms = (now - std::min(now, peer->heard_ns)) / 1'000'000;
    all.push_back(about);
  }
}

}  // namespace tern
