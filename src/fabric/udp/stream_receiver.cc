#include "fabric/udp/stream_receiver.h"

#include <algorithm>

namespace tern {
namespace {

// An acknowledgement is sent alone when an eighth of the window, or so many packets, are unacknowledged: the sender
// always has seven eighths to go on with, and 32 packets are half a batch.
constexpr size_t kWindowParts = 8;
constexpr uint32_t kMaxOwed = 32;
// A rank that will sleep acknowledges so much at once: the sender's window may be full of it. Less than this fills no
// window, so it waits for a packet to travel with even then (a put and its flush over UDP: 3 packets become 2, and the
// target is woken once instead of twice).
constexpr size_t kLittleBytes = 1024;
// Pieces kept early: each takes more memory than its bytes, so their number is bounded too.
constexpr size_t kMaxEarly = 4096;

}  // namespace

StreamReceiver::StreamReceiver(UdpLink& link, size_t window_bytes)
    : link_(link), window_(window_bytes), reader_(link.lane, link.shared.sink) {}

bool StreamReceiver::take(const wire::Datagram& datagram, uint64_t now_ns, int& handled) {
  const uint64_t number = datagram.head.number, offset = datagram.stream.offset;
  const size_t bytes = datagram.payload_bytes;
  if (offset > ~uint64_t{0} - bytes) return false;
  const bool in_turn = offset <= next_;
  if (!in_turn && bytes != 0 && !keep(offset, datagram.payload, bytes)) return true;  // no room: treated as lost

  const bool newest = number > link_.received.largest();
  const bool gap = number != link_.received.largest() + 1;
  link_.received.add(number);
  if (newest) newest_ns_ = now_ns;
  if (owed_ == 0) owed_since_ns_ = now_ns;
  owed_from_ = owed_ == 0 ? number : std::min(owed_from_, number);
  ++owed_;
  owed_bytes_ += bytes;
  put_off_ = false;
  // The sender should hear at once of a loss, a duplicate, or a question.
  urgent_ = urgent_ || gap || !in_turn || bytes == 0 || offset + bytes <= next_;
  if (!in_turn || offset + bytes <= next_) return true;

  whole_ = offset + bytes;
  for (auto early = early_.begin(); early != early_.end() && early->first <= whole_; ++early) {
    whole_ = std::max(whole_, early->first + early->second.size());
  }
  const size_t known = size_t(next_ - offset);
  if (!deliver(datagram.payload + known, bytes - known, handled)) return false;
  while (!early_.empty() && early_.begin()->first <= next_) {
    auto node = early_.extract(early_.begin());
    const std::vector<std::byte>& piece = node.mapped();
    early_bytes_ -= piece.size();
    if (node.key() + piece.size() <= next_) continue;
    const size_t had = size_t(next_ - node.key());
    if (!deliver(piece.data() + had, piece.size() - had, handled)) return false;
  }
  return true;
}

bool StreamReceiver::deliver(const std::byte* data, size_t bytes, int& handled) {
  next_ += bytes;  // first: the sink may send, and that packet acknowledges what has arrived
  link_.shared.clock.charge_copy(bytes);
  return reader_.feed(data, bytes, handled);
}

// False: there is no room for it.
bool StreamReceiver::keep(uint64_t offset, const std::byte* data, size_t bytes) {
  if (offset + bytes > next_ + window_ || early_bytes_ + bytes > window_ || early_.size() >= kMaxEarly) return false;
  auto above = early_.lower_bound(offset);
  // Data that overlaps is a repetition, whole or in pieces: it is here already, or comes again later.
  if (above != early_.end() && above->first < offset + bytes)
    return above->first == offset && above->second.size() >= bytes;
  if (above != early_.begin()) {
    auto below = std::prev(above);
    const uint64_t end = below->first + below->second.size();
    if (end > offset) return end >= offset + bytes;
    if (end == offset) {
      below->second.insert(below->second.end(), data, data + bytes);
      early_bytes_ += bytes;
      return true;
    }
  }
  early_.emplace_hint(above, offset, std::vector<std::byte>(data, data + bytes));
  early_bytes_ += bytes;
  return true;
}

void StreamReceiver::abandon(const Error& error) {
  early_.clear();
  early_bytes_ = 0;
  owed_ = 0;
  reader_.abandon(error);
}

wire::StreamHead StreamReceiver::head(uint64_t now_ns) {
  wire::StreamHead head{};
  head.limit = whole_ + window_;
  const auto& ranges = link_.received.ranges();
  if (ranges.empty()) return head;
  head.largest = ranges.front().last;
  head.run = uint32_t(std::min<uint64_t>(ranges.front().last - ranges.front().first, ~uint32_t{0}));
  head.delay_us = uint32_t(std::min<uint64_t>((now_ns - std::min(now_ns, newest_ns_)) / 1000, ~uint32_t{0}));
  // Counts as stated only if the newest range covers all that is owed; the other ranges fit only into an
  // acknowledgement.
  if (owed_ != 0 && owed_from_ >= ranges.front().first && !urgent_) {
    owed_ = 0;
    owed_bytes_ = 0;
  }
  return head;
}

void StreamReceiver::acknowledge(uint64_t now_ns, bool all) {
  if (owed_ == 0) return;
  put_off_ = put_off_ || all;
  const size_t much = all ? std::min(kLittleBytes, window_ / kWindowParts) : window_ / kWindowParts;
  if (!urgent_ && owed_ < kMaxOwed && owed_bytes_ < much && now_ns < deadline_ns()) return;
  std::byte datagram[wire::kStreamOverhead + wire::kMaxAckRanges * sizeof(wire::AckRange)];
  const wire::StreamHead said = head(now_ns);
  std::memcpy(datagram + sizeof(wire::DatagramHead), &said, sizeof said);
  size_t at = sizeof(wire::DatagramHead) + sizeof said;
  const auto& ranges = link_.received.ranges();
  for (size_t i = 1; i < ranges.size() && i <= wire::kMaxAckRanges; ++i) {
    const wire::AckRange range{uint32_t(std::min<uint64_t>(ranges[i - 1].first - ranges[i].last - 1, ~uint32_t{0})),
                               uint32_t(std::min<uint64_t>(ranges[i].last - ranges[i].first + 1, ~uint32_t{0}))};
    std::memcpy(datagram + at, &range, sizeof range);
    at += sizeof range;
  }
  if (!link_.send_alone(datagram, at + wire::kDatagramTagBytes, wire::DatagramType::acknowledge)) return;
  owed_ = 0;
  owed_bytes_ = 0;
  urgent_ = false;
}

}  // namespace tern
