// How much may be in flight to a peer, and how fast it leaves: slow start, then additive increase. A loss takes three
// tenths off the window, once per round trip (RFC 9002, 7, with the factor of RFC 9438, CUBIC); after two timeouts in a
// row it starts anew. Pacing spreads the window over a round trip, so that no burst hits a switch's queue. What was not
// used in the last two milliseconds may leave at once, since a sleeper's clock ticks that coarsely.
// Units: bytes, nanoseconds. Thread rule: a value of its peer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fabric/udp/round_trip.h"

namespace tern {

class Congestion {
 public:
  /// `datagram`: bytes of a full one; `most`: the window never grows beyond.
  Congestion(size_t datagram, size_t most)
      : least_(2 * datagram),
        most_(std::max(most, least_)),
        window_(std::clamp(kFirstWindow, least_, most_)),
        datagram_(datagram) {}

  size_t window() const { return window_; }
  /// `full`: the window was the sender's limit; else the acknowledgement does not show that more would fit.
  void on_acknowledged(size_t bytes, bool full) {
    if (!full) return;
    if (window_ < threshold_) {
      window_ += bytes;
    } else {
      credit_ += bytes;
      if (credit_ >= window_) {
        credit_ -= window_;
        window_ += datagram_;
      }
    }
    window_ = std::min(window_, most_);
  }
  /// Datagram `number` is lost; `next`: the number of the next that will be sent.
  void on_loss(uint64_t number, uint64_t next) {
    if (number < recovered_from_) return;  // of the round trip for which the window was reduced already
    recovered_from_ = next;
    window_ = std::max(window_ * 7 / 10, least_);
    threshold_ = window_;
    credit_ = 0;
  }
  void on_silence() {
    threshold_ = std::max(window_ / 2, least_);
    window_ = least_;
    credit_ = 0;
  }

  /// Bytes that pacing lets leave now.
  size_t allowance(uint64_t now_ns, const RoundTrip& trip) {
    const size_t depth = std::max<size_t>(kBurst, size_t(double(kSlack_ns) * rate(trip)));
    if (now_ns > filled_ns_) {
      bucket_ = std::min(double(depth), bucket_ + double(now_ns - filled_ns_) * rate(trip));
      filled_ns_ = now_ns;
    }
    return bucket_ > 0 ? depth : 0;  // may be overdrawn by one batch
  }
  void on_sent(size_t bytes) { bucket_ -= double(bytes); }
  /// When allowance becomes more than nothing.
  uint64_t next_ns(const RoundTrip& trip) const {
    return bucket_ > 0 ? filled_ns_ : filled_ns_ + uint64_t(-bucket_ / rate(trip)) + 1;
  }

 private:
  /// The peer's limit before its first word (StreamSender::kFirstLimit), and one batch of the port. RFC 9002, 7.2 has
  /// 14,720 bytes: a cluster's networks have queues for more.
  static constexpr size_t kFirstWindow = 64 * 1024, kBurst = 64 * 1024;
  /// Longer than one tick of a kernel with 1000 or 500 ticks a second.
  static constexpr uint64_t kSlack_ns = 2'000'000;

  /// Bytes per nanosecond: a little more than the window in a round trip, twice in slow start.
  double rate(const RoundTrip& trip) const {
    return double(window_) * (window_ < threshold_ ? 2.0 : 1.25) / double(trip.smoothed_ns());
  }

  size_t least_, most_, window_, datagram_;
  size_t threshold_ = ~size_t{0};
  size_t credit_ = 0;  ///< acknowledged in congestion avoidance, towards the next datagram of window
  uint64_t recovered_from_ = 0;
  double bucket_ = double(kBurst);
  uint64_t filled_ns_ = 0;
};

}  // namespace tern
