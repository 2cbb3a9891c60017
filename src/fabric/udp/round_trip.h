// The smoothed round-trip time to a peer, and how long to wait for an answer (RFC 6298; RFC 9002, 5). Used by both UDP
// protocols, each of which knows to which sending of a datagram an acknowledgement belongs. Units:
// nanoseconds. Thread rule: a value of its peer.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

class RoundTrip {
 public:
  /// `delay_ns`: how long the peer states that it has waited before it answered.
  void sample(uint64_t took_ns, uint64_t delay_ns) {
    least_ns_ = std::min(least_ns_, took_ns);
    // The peer's statement must not make the round trip shorter than the shortest one seen.
    if (took_ns >= least_ns_ + delay_ns) took_ns -= delay_ns;
    if (smoothed_ns_ == 0) {
      smoothed_ns_ = std::max<uint64_t>(took_ns, 1);
      deviation_ns_ = took_ns / 2;
      return;
    }
    const uint64_t off = took_ns > smoothed_ns_ ? took_ns - smoothed_ns_ : smoothed_ns_ - took_ns;
    deviation_ns_ = (3 * deviation_ns_ + off) / 4;
    smoothed_ns_ = std::max<uint64_t>((7 * smoothed_ns_ + took_ns) / 8, 1);
  }
  bool measured() const { return smoothed_ns_ != 0; }
  uint64_t smoothed_ns() const { return measured() ? smoothed_ns_ : kGuess_ns; }
  uint64_t least_ns() const { return measured() ? least_ns_ : kGuess_ns; }
  /// When nothing has come back after so long, it is sent again; `repetitions` so far, each doubles the time.
  uint64_t timeout_ns(uint32_t repetitions) const {
    const uint64_t once = measured() ? std::max(smoothed_ns_ + 4 * deviation_ns_, kMinTimeout_ns) : kFirstTimeout_ns;
    return std::min(once << std::min(repetitions, 20u), kMaxTimeout_ns);
  }

  // A peer that shares its core with others may not run for some milliseconds (a time slice). One that computes answers
  // only when it calls the library again, and should get no more than a handful of datagrams until then: 2 a second at
  // the longest timeout. The first timeout, without any measurement, is that of a busy cluster, not RFC 6298's second.
  static constexpr uint64_t kMinTimeout_ns = 4'000'000, kFirstTimeout_ns = 20'000'000, kMaxTimeout_ns = 500'000'000;
  static constexpr uint64_t kGuess_ns = 200'000;  // round trip before a measurement: a switched network under load

 private:
  uint64_t smoothed_ns_ = 0, deviation_ns_ = 0, least_ns_ = ~uint64_t{0};
};

}  // namespace tern
