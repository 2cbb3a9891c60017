#include "fabric/udp/stream_sender.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/assert.h"
#include "fabric/udp/stream_receiver.h"
#include "wire/frame.h"

namespace tern {
namespace {

constexpr size_t kHeadBytes = sizeof(wire::FrameHead);
constexpr size_t kBatch = DatagramOutlet::kBatch, kBatchBytes = DatagramOutlet::kBatchBytes;
// Small messages are held back for one such call at most.
constexpr size_t kMaxHeld = kBatchBytes;
// Memory of a packet that others may join: some thousand small ones in flight hold so much each, 8 MiB.
constexpr size_t kJoinMemory = 8192;
constexpr uint32_t kMaxReorder = 64;  // packets; one batch, which a kernel may send by another queue
// Datagrams that every network carries (RFC 8899, 5.1.2).
constexpr size_t kMinDatagram = 1200;
// A packet overtaken by another is lost after so long at the earliest (RFC 9002, 6.1.2: kGranularity).
constexpr uint64_t kMinReorder_ns = 1'000'000;
// Timeouts in a row after which the window counts as lost too (RFC 9002, 7.6: persistent congestion needs three).
constexpr uint32_t kSilenceToShrink = 2;

}  // namespace

StreamSender::StreamSender(UdpLink& link, StreamReceiver& receiver, size_t datagram_bytes)
    : link_(link),
      receiver_(receiver),
      size_(kMinDatagram - wire::kStreamOverhead, datagram_bytes - wire::kStreamOverhead),
      congestion_(datagram_bytes, std::max(link.shared.window_bytes, kFirstLimit)) {}

StreamSender::~StreamSender() {
  for (auto* list : {&fresh_, &sealed_, &in_flight_, &lost_}) {
    while (Packet* packet = list->pop_front()) drop(*packet);
  }
}

StreamSender::Packet* StreamSender::make(size_t payload_bytes) {
  void* memory = link_.shared.pool.take(sizeof(Packet) + wire::kStreamOverhead + payload_bytes);
  auto* packet = new (memory) Packet;
  packet->capacity = uint32_t(payload_bytes);
  packet->offset = end_;
  return packet;
}

void StreamSender::drop(Packet& packet) {
  link_.shared.pool.give(&packet, sizeof(Packet) + wire::kStreamOverhead + packet.capacity);
}

// --- Operations into packets.

bool StreamSender::may_send(size_t bytes) const {
  const size_t whole = kHeadBytes + bytes, before = in_flight_bytes_ + held_bytes_;
  return clear() && (before == 0 || before + whole <= congestion_.window()) && end_ + whole <= limit_;
}

bool StreamSender::try_send(const wire::Header& header, const void* payload, size_t bytes, uint64_t now_ns) {
  if (!may_send(bytes) || congestion_.allowance(now_ns, trip_) == 0) return false;
  send(header, payload, bytes, now_ns);
  return true;
}

void StreamSender::send(const wire::Header& header, const void* payload, size_t bytes, uint64_t now_ns) {
  const size_t whole = kHeadBytes + bytes;
  const bool waits = bytes <= Coalescing::kMaxBytes &&
                     coalescing_.may_wait(now_ns, polls_, !wire::sender_comes_back(header)) &&
                     held_bytes_ + whole <= kMaxHeld;
  append(header, static_cast<const std::byte*>(payload), bytes, waits);
  if (waits) {
    held_bytes_ += whole;
    TERN_DEBUG_ASSERT(held_bytes_ <= kMaxHeld);
    link_.shared.holding = true;
  } else {
    push(now_ns, false);
    coalescing_.has_left(link_.shared.clock.rough_ns());
  }
}

// `join`: others will be added to the same packet.
void StreamSender::append(const wire::Header& header, const std::byte* payload, size_t bytes, bool join) {
  const wire::FrameHead head = wire::build_frame(wire::FrameType::message, header, bytes);
  link_.shared.charge_messages(1);
  Packet* packet = held_bytes_ != 0 && fresh_.back()->room() >= kHeadBytes ? fresh_.back() : nullptr;
  size_t packed = 0;
  for (bool first = true; first || packed < bytes; first = false) {
    const size_t front = first ? kHeadBytes : 0;
    if (!packet) {
      const size_t most = join ? kJoinMemory - sizeof(Packet) - wire::kStreamOverhead : front + bytes - packed;
      packet = make(std::min(size_.now(), most));
      fresh_.push_back(packet);
    }
    std::byte* to = packet->payload() + packet->payload_bytes;
    const size_t part = std::min(packet->room() - front, bytes - packed);
    if (first) std::memcpy(to, &head, kHeadBytes);
    if (part != 0) std::memcpy(to + front, payload + packed, part);
    packet->payload_bytes += uint32_t(front + part);
    TERN_DEBUG_ASSERT(packet->payload_bytes <= packet->capacity);
    packed += part;
    end_ += front + part;
    packet = nullptr;
  }
  link_.shared.clock.charge_copy(bytes);
}

void StreamSender::enqueue(SendOperation& operation) {
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  TERN_DEBUG_ASSERT(!operation.linked());
  queue_.push_back(&operation);
}

bool StreamSender::withdraw(SendOperation& operation) {
  if (operation.header_sent || !operation.linked()) return false;
  SendList::remove(&operation);
  return true;
}

void StreamSender::surrender(SendList& out) {
  while (SendOperation* operation = queue_.pop_front()) out.push_back(operation);
  for (auto* list : {&fresh_, &sealed_, &in_flight_, &lost_}) {
    while (Packet* packet = list->pop_front()) drop(*packet);
  }
  in_flight_bytes_ = held_bytes_ = repeats_ = 0;
  TERN_DEBUG_ASSERT(in_flight_.empty() && lost_.empty() && queue_.empty());
  timeout_at_ns_ = lost_at_ns_ = ~uint64_t{0};
}

// Builds a packet from the queue, as far as the limit; null: there is nothing, or no limit for it.
StreamSender::Packet* StreamSender::build() {
  if (queue_.empty() || limit_ - std::min(limit_, end_) <= kHeadBytes) return nullptr;
  size_t most = size_t(std::min<uint64_t>(size_.now(), limit_ - end_)), wanted = 0;
  for (SendOperation* operation = queue_.front(); operation && wanted < most; operation = queue_.next(operation)) {
    wanted += (operation->header_sent ? 0 : kHeadBytes) + operation->payload.remaining();
  }
  most = std::min(most, wanted);
  Packet* packet = make(most);
  size_t at = 0;
  while (SendOperation* operation = queue_.front()) {
    if (!operation->header_sent) {
      if (most - at < kHeadBytes) break;
      const wire::FrameHead head =
          wire::build_frame(wire::FrameType::message, operation->header, operation->total_bytes);
      std::memcpy(packet->payload() + at, &head, kHeadBytes);
      at += kHeadBytes;
      operation->header_sent = true;
      link_.shared.charge_messages(1);
    }
    at += operation->payload.pack(packet->payload() + at, most - at);
    if (operation->payload.remaining() != 0) break;
    SendList::remove(operation);
    link_.shared.finished.push_back(operation);
  }
  TERN_ASSERT(at != 0);
  packet->payload_bytes = uint32_t(at);
  TERN_DEBUG_ASSERT(at <= most && end_ + at <= limit_);
  end_ += at;
  link_.shared.clock.charge_copy(at);
  return packet;
}

// --- Packets to the port.

// The packet to send next: lost ones, built ones, then queued data. Null: none may leave.
StreamSender::Packet* StreamSender::next(uint64_t now_ns, bool beyond_window) {
  if (!beyond_window && !room()) return nullptr;
  for (IntrusiveList<Packet>* list : {&lost_, &fresh_}) {
    Packet* packet = list->pop_front();
    // (In silence the packets alternate: it is not only one packet's sendings that failed.)
    if (packet && size_.should_split(packet->payload_bytes, std::max(packet->sendings, silence_)))
      split(*packet, *list, now_ns);
    if (packet) return packet;
    if (beyond_window) return nullptr;
  }
  return build();
}

// What does not fit into a packet of the present length goes back to the front of `rest`, in packets of that
// length.
void StreamSender::split(Packet& packet, IntrusiveList<Packet>& rest, uint64_t now_ns) {
  const size_t part = size_.split(packet.payload_bytes, silence_ != 0, now_ns);
  TERN_DEBUG_ASSERT(part != 0 && packet.payload_bytes > 0);
  const size_t last = (packet.payload_bytes - 1) / part * part;
  for (size_t at = last; at != 0; at -= part) {
    const size_t bytes = std::min(part, packet.payload_bytes - at);
    Packet* piece = make(bytes);
    piece->offset = packet.offset + at;
    piece->number = packet.number;  // if that sending arrives after all, so have the pieces
    piece->old_number = packet.old_number;
    piece->payload_bytes = uint32_t(bytes);
    std::memcpy(piece->payload(), packet.payload() + at, bytes);
    rest.push_front(piece);
  }
  link_.shared.clock.charge_copy(packet.payload_bytes - part);
  packet.payload_bytes = uint32_t(part);
  TERN_DEBUG_ASSERT(part <= packet.capacity);
  packet.sendings = 0;
}

void StreamSender::seal(Packet& packet, uint64_t now_ns) {
  if (packet.number != 0) {
    packet.old_number = packet.number;
    ++repeats_;
    ++link_.shared.counters->udp_repeated;
  }
  wire::StreamHead head = receiver_.head(now_ns);
  head.offset = packet.offset;
  std::memcpy(packet.datagram() + sizeof(wire::DatagramHead), &head, sizeof head);
  packet.number = link_.close(packet.datagram(), packet.bytes(), wire::DatagramType::stream);
  TERN_DEBUG_ASSERT(packet.number > packet.old_number);
  ++packet.sendings;
}

// Sends as much as may leave. True: at least one packet has.
bool StreamSender::push(uint64_t now_ns, bool beyond_window) {
  bool any = false;
  full_ = false;
  held_bytes_ = 0;
  paced_until_ns_ = 0;
  for (;;) {
    // Packets of one size except the last, first from sealed_, where they wait when the port was full.
    iovec batch[kBatch];
    size_t count = 0, bytes = 0;
    auto fits = [&](const Packet& packet) {
      return count < kBatch && bytes + packet.bytes() <= kBatchBytes &&
             (count == 0 || (batch[count - 1].iov_len == batch[0].iov_len && packet.bytes() <= batch[0].iov_len));
    };
    Packet* packet = sealed_.front();
    for (; packet && (count == 0 || fits(*packet)); packet = sealed_.next(packet)) {
      batch[count++] = {packet->datagram(), packet->bytes()};
      bytes += packet->bytes();
    }
    if (!packet) {
      if (!beyond_window && congestion_.allowance(now_ns, trip_) == 0) {
        if (count == 0) {
          if (!lost_.empty() || !fresh_.empty() || !queue_.empty()) paced_until_ns_ = congestion_.next_ns(trip_);
          return any;
        }
      } else {
        while (count < kBatch && (packet = next(now_ns, beyond_window))) {
          if (count != 0 && !fits(*packet)) {  // it goes with the next batch
            (packet->number != 0 ? lost_ : fresh_).push_front(packet);
            break;
          }
          TERN_DEBUG_ASSERT(!packet->linked());
          in_flight_bytes_ += packet->bytes();
          seal(*packet, now_ns);
          sealed_.push_back(packet);
          batch[count++] = {packet->datagram(), packet->bytes()};
          bytes += packet->bytes();
          if (beyond_window) break;
        }
      }
    }
    if (count == 0) return any;
    const size_t taken = link_.shared.port.send(link_.peer, 0, batch, count);
    link_.shared.counters->udp_sent += taken;
    for (size_t i = 0; i < taken; ++i) {
      Packet* gone = sealed_.pop_front();
      TERN_DEBUG_ASSERT(gone && gone->number != 0);
      gone->sent_ns = now_ns;
      congestion_.on_sent(gone->bytes());
      in_flight_.push_back(gone);
    }
    if (taken != 0) {
      any = true;
      restart_timer(now_ns);
    }
    if (taken < count) {
      full_ = true;
      retry_at_ns_ = now_ns + UdpShared::kFullWait_ns;
      return any;
    }
    if (beyond_window) return any;
  }
}

void StreamSender::ask(uint64_t now_ns) {
  if (unsent() || unacknowledged()) return;  // something that will be acknowledged is in flight, or about to be
  fresh_.push_back(make(0));
  push(now_ns, false);
}

// --- Acknowledgements.

/// The numbers that an acknowledgement states, lowest first.
struct StreamSender::Numbers {
  ReceivedNumbers::Range ranges[wire::kMaxAckRanges + 1];
  size_t count = 0;

  explicit Numbers(const wire::Datagram& datagram) {
    uint64_t last = datagram.stream.largest, first = last - datagram.stream.run;
    ReceivedNumbers::Range down[wire::kMaxAckRanges + 1];
    size_t n = 0;
    down[n++] = {first, last};
    for (size_t i = 0; i < datagram.range_count; ++i) {
      const wire::AckRange& range = datagram.ranges[i];
      if (range.gap == 0 || range.run == 0 || first <= uint64_t(range.gap) + range.run) break;
      last = first - range.gap - 1;
      first = last - range.run + 1;
      down[n++] = {first, last};
    }
    while (n != 0) ranges[count++] = down[--n];
    TERN_DEBUG_ASSERT(count <= wire::kMaxAckRanges + 1);
  }
  bool contains(uint64_t number) const {
    for (size_t i = 0; i < count; ++i) {
      if (number < ranges[i].first) return false;
      if (number <= ranges[i].last) return true;
    }
    return false;
  }
};

void StreamSender::on_acknowledgement(const wire::Datagram& datagram, uint64_t now_ns) {
  const wire::StreamHead& said = datagram.stream;
  if (said.largest >= link_.next_number) return;  // never sent
  limit_ = std::max(limit_, said.limit);
  if (said.largest == 0) return;
  const bool was_full = in_flight_bytes_ + size_.now() >= congestion_.window();
  const Numbers numbers(datagram);
  size_t acknowledged = 0;
  auto arrived = [&](Packet* packet) {
    const bool late = !numbers.contains(packet->number);
    if (late && (packet->old_number == 0 || !numbers.contains(packet->old_number))) return false;
    if (late) {  // it counted as lost, but was only overtaken
      ++link_.shared.counters->udp_spurious;
      reorder_ = std::min(2 * reorder_, kMaxReorder);
    } else if (packet->number == said.largest) {
      trip_.sample(now_ns - std::min(now_ns, packet->sent_ns), uint64_t(said.delay_us) * 1000);
    }
    return true;
  };
  for (Packet *packet = in_flight_.front(), *following; packet; packet = following) {
    following = in_flight_.next(packet);
    if (packet->number > said.largest && repeats_ == 0) break;
    if (!arrived(packet)) continue;
    land(*packet);
    size_.on_arrived(packet->payload_bytes, now_ns);
    acknowledged += packet->bytes();
    drop(*packet);
  }
  for (Packet *packet = lost_.front(), *following; packet; packet = following) {
    following = lost_.next(packet);
    if (!numbers.contains(packet->number)) continue;
    ++link_.shared.counters->udp_spurious;
    reorder_ = std::min(2 * reorder_, kMaxReorder);
    acknowledged += packet->bytes();
    IntrusiveList<Packet>::remove(packet);
    drop(*packet);
  }
  if (said.largest > largest_acked_) largest_acked_ = said.largest;
  if (acknowledged != 0) {
    silence_ = 0;
    congestion_.on_acknowledged(acknowledged, was_full);
    restart_timer(now_ns);
  }
  find_lost(now_ns);
}

uint64_t StreamSender::reorder_ns() const { return std::max(2 * trip_.smoothed_ns(), kMinReorder_ns); }

// It is not in flight any more.
void StreamSender::land(Packet& packet) {
  IntrusiveList<Packet>::remove(&packet);
  TERN_DEBUG_ASSERT(in_flight_bytes_ >= packet.bytes());
  in_flight_bytes_ -= packet.bytes();
  TERN_DEBUG_ASSERT(packet.old_number == 0 || repeats_ != 0);
  repeats_ -= packet.old_number != 0;
}

void StreamSender::give_up(Packet& packet) {
  land(packet);
  if (packet.payload_bytes == 0) {  // a question: others will follow
    drop(packet);
  } else {
    lose(packet);
  }
}

// A packet lost for the first time goes to the end, one that was repeated without success to the beginning.
void StreamSender::lose(Packet& packet) {
  link_.reopen(packet.datagram(), packet.bytes(), packet.number);
  Packet* before = lost_.back();
  if (before && packet.offset - std::min(packet.offset, lost_.front()->offset) <
                    before->offset - std::min(packet.offset, before->offset)) {
    Packet* behind = lost_.front();
    while (behind->offset <= packet.offset) behind = lost_.next(behind);
    before = lost_.previous(behind);
  } else {
    while (before && before->offset > packet.offset) before = lost_.previous(before);
  }
  TERN_DEBUG_ASSERT(!packet.linked());
  lost_.insert_after(before, &packet);
}

void StreamSender::find_lost(uint64_t now_ns) {
  lost_at_ns_ = ~uint64_t{0};
  for (Packet *packet = in_flight_.front(), *following; packet && packet->number < largest_acked_; packet = following) {
    following = in_flight_.next(packet);
    const uint64_t due = packet->sent_ns + reorder_ns();
    if (packet->number + reorder_ > largest_acked_ && due > now_ns) {
      lost_at_ns_ = std::min(lost_at_ns_, due);
      continue;
    }
    congestion_.on_loss(packet->number, link_.next_number);
    give_up(*packet);
  }
}

void StreamSender::restart_timer(uint64_t now_ns) {
  timeout_at_ns_ = in_flight_.empty() ? ~uint64_t{0} : now_ns + timeout_ns();
}

void StreamSender::advance(uint64_t now_ns) {
  if (now_ns >= lost_at_ns_) find_lost(now_ns);
  if (now_ns >= timeout_at_ns_ && !in_flight_.empty()) {
    if (++silence_ == kSilenceToShrink) {
      congestion_.on_silence();
      // All count as lost (the newest below). The peer may have no room for any of them before one that was lost
      // earlier has come, and they leave no room in the window for that one.
      for (Packet* packet = in_flight_.front(); in_flight_.next(packet); packet = in_flight_.front()) give_up(*packet);
    }
    Packet* first = in_flight_.front();
    for (Packet* packet = first; packet; packet = in_flight_.next(packet)) {
      if (packet->offset <= first->offset) first = packet;  // equal: the bytes behind a question, not the question
    }
    land(*first);
    lose(*first);
    networks_ = link_.try_next_network();
    timeout_at_ns_ = now_ns + timeout_ns();
    push(now_ns, true);
  }
  if (unsent() || full_) push(now_ns, false);
}

uint64_t StreamSender::deadline_ns() const {
  uint64_t earliest = std::min(timeout_at_ns_, lost_at_ns_);
  if (full_) earliest = std::min(earliest, retry_at_ns_);
  if (paced_until_ns_ != 0) earliest = std::min(earliest, paced_until_ns_);
  return earliest;
}

}  // namespace tern
