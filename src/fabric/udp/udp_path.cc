// The way of the data: from try_send and enqueue to the channels, from the port through seal and number to the channels.
#include "fabric/udp/udp_path.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace tern {
namespace {

// Calls of the port's receive in one poll.
constexpr int kMostReceives = 8;
// Completions of one poll: a done-function may send again, and what it sends may be done at once.
constexpr int kMostCompletions = 1024;
// At the end (has_unsent): how long, and how many timeouts, the last acknowledgements are waited for; and how long a rank whose
// network has lost something stays to repeat its own last one. A peer that still listens hears nothing in so many attempts
// with a probability of less than e^-14; within these bounds.
constexpr uint64_t kLastWords_ns = 1'000'000'000, kLinger_ns = 12'000'000;
constexpr uint32_t kFewestLastTimeouts = 6, kMostLastTimeouts = 60;
constexpr double kLastCertainty = 14;

}  // namespace

bool UdpPath::try_send(PeerId id, const wire::Header& header, const void* payload, size_t bytes) {
  TERN_DEBUG_ASSERT(bytes <= std::max(properties_.eager_bytes, kAlwaysWholeBytes));
  Peer& peer = peer_at(id);
  if (peer.lost || !peer.channel) return false;
  if (!peer.channel->try_send(header, payload, bytes, clock_.now_ns())) return false;
  keep_busy(peer);
  return true;
}

void UdpPath::enqueue(SendOperation& operation) {
  Peer& peer = peer_at(operation.peer);
  if (peer.lost || !peer.channel) {
    unsendable_.push_back(&operation);
    return;
  }
  peer.channel->enqueue(operation, clock_.now_ns());
  keep_busy(peer);
}

bool UdpPath::withdraw(SendOperation& operation) {
  Peer& peer = peer_at(operation.peer);
  return !peer.lost && peer.channel && peer.channel->withdraw(operation);
}

int UdpPath::poll() {
  const uint64_t now = clock_.now_ns();
  int handled = receive(now);
  if (!busy_.empty()) {
    advance_busy(clock_.now_ns(), false);
    handled += busy_.empty();  // who waits until nothing is unsent must not sleep
  }
  if (now >= over_at_ns_) {
    over_at_ns_ = ~uint64_t{0};
    ++handled;
  }
  if (now >= next_look_ns_) look_after(now);
  if (!doomed_.empty() || !unsendable_.empty()) handled += lose_doomed();
  if (!shared_.finished.empty()) handled += complete();
  return handled;
}

int UdpPath::receive(uint64_t now_ns) {
  int handled = 0;
  DatagramPort::Arrival arrivals[DatagramPort::kMostArrivals];
  for (int i = 0; i < kMostReceives; ++i) {
    const size_t count = port_->receive(arrivals);
    if (count == 0) break;
    for (size_t k = 0; k < count; ++k) on_arrival(arrivals[k], now_ns, handled);
  }
  return handled;
}

void UdpPath::on_arrival(const DatagramPort::Arrival& arrival, uint64_t now_ns, int& handled) {
  wire::Datagram datagram;
  if (!wire::parse_datagram_head(arrival.data, arrival.bytes, datagram.head) || !reaches(datagram.head.from)) {
    ++shared_.counters.forged;
    return;
  }
  Peer& peer = peer_at(datagram.head.from);
  if (peer.lost || !peer.channel) return;
  UdpLink& link = *peer.link;
  const uint64_t number = datagram.head.number;
  if (!link.checking.check(arrival.data, arrival.bytes, number) ||
      !wire::parse_datagram(arrival.data, arrival.bytes, datagram)) {
    ++shared_.counters.forged;
    return;
  }
  if (link.received.contains(number)) {
    ++shared_.counters.replayed;
    return;
  }
  ++shared_.counters.received;
  // Where our own datagrams get no answer the peer's way is tried; else each keeps its own, or both would chase each other.
  if (number > link.received.largest() && (peer.channel->silence() != 0 || !peer.channel->unacknowledged())) {
    port_->follow(peer.id, arrival.route);
  }
  peer.heard_ns = last_arrival_ns_ = now_ns;
  peer.refusals = 0;
  keep_busy(peer);
  if (!peer.channel->on_datagram(datagram, now_ns, handled)) doom(peer, "it sent what is no message");
}

void UdpPath::advance_busy(uint64_t now_ns, bool all) {
  for (size_t i = 0; i < busy_.size();) {
    Peer& peer = *busy_[i];
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
  while (done < kMostCompletions) {
    SendOperation* operation = shared_.finished.pop_front();
    if (!operation) break;
    ++done;
    operation->done(*operation, {});
  }
  return done;
}

bool UdpPath::arm() {
  if (!busy_.empty()) advance_busy(clock_.now_ns(), true);
  return shared_.finished.empty() && doomed_.empty() && unsendable_.empty() && port_->arm();
}

uint64_t UdpPath::next_deadline_ns() const {
  uint64_t earliest = std::min(next_look_ns_, over_at_ns_);
  for (const Peer* peer : busy_) {
    if (!peer->lost) earliest = std::min(earliest, peer->channel->deadline_ns());
  }
  return earliest;
}

// How many attempts in a row must have been in vain before a peer is believed to have left. An attempt is lost when one
// of two datagrams is; about so many were repeated.
uint32_t UdpPath::last_timeouts() const {
  const UdpCounters& counted = shared_.counters;
  const double lost = std::clamp(2.0 * double(counted.repeated) / double(std::max<uint64_t>(counted.sent, 1)), 0.01, 0.9);
  return std::clamp(uint32_t(kLastCertainty / -std::log(lost)), kFewestLastTimeouts, kMostLastTimeouts);
}

// What is asked at the end, when a peer that has all it waits for may not look at its network again: an acknowledgement that is
// missing then is given up after a while.
bool UdpPath::has_unsent() const {
  bool unsent = false, unsure = false;
  const uint32_t enough = last_timeouts();
  for (const Peer* peer : busy_) {
    if (peer->lost) continue;
    const bool tried = peer->channel->silence() >= enough;
    unsent = unsent || (!tried && (peer->channel->unsent() || peer->channel->unacknowledged()));
    unsure = unsure || peer->channel->unsent() || peer->channel->unacknowledged();
  }
  const uint64_t now = clock_.now_ns();
  over_at_ns_ = ~uint64_t{0};
  if (!unsure) unsure_since_ns_ = 0;
  if (unsure && unsure_since_ns_ == 0) unsure_since_ns_ = now;
  uint64_t end = 0;  // of the time that is waited at the end
  if (unsent) return true;
  if (unsure) {
    end = std::max(unsure_since_ns_, last_arrival_ns_) + kLastWords_ns;
  } else if (shared_.counters.repeated != 0 || shared_.counters.replayed != 0 || shared_.counters.forged != 0) {
    end = last_arrival_ns_ + kLinger_ns;
  }
  if (now >= end) return false;
  over_at_ns_ = end;
  return true;
}

}  // namespace tern
