// How long the packets to a peer may be. A length that both hosts allow may be too much for a router between them, or
// for the peer's receive buffer, without any message saying so. So a packet that was repeated without success is split,
// and later packets are as short (RFC 8899, 4.3). Packets become longer again when those of the present length arrive;
// as long as what failed only after a while. Units: bytes of payload, nanoseconds. Thread rule: a value of its peer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tern {

class PayloadSize {
 public:
  /// `least`: what every network carries.
  PayloadSize(size_t least, size_t most) : least_(std::min(least, most)), most_(most), now_(most) {}

  /// Payload of a full packet built now.
  size_t now() const { return now_; }
  /// Whether a packet that was sent so often without success should be split.
  bool should_split(size_t bytes, uint32_t sendings) const {
    return bytes > now_ || (bytes > least_ && sendings >= kFailuresToSplit);
  }
  /// The length of the pieces, and of later packets. `silent`: nothing else has arrived either, so it is not known
  /// whether shorter ones would.
  size_t split(size_t bytes, bool silent, uint64_t now_ns) {
    if (bytes <= now_) {
      wait_ns_ = retried_ ? std::min(2 * wait_ns_, kMaxWait_ns) : kFirstWait_ns;
      too_long_ = bytes;
      retry_at_ns_ = now_ns + wait_ns_;
      now_ = silent ? least_ : std::max(bytes / 2, least_);
      arrived_ = 0;
    }
    return now_;
  }
  void on_arrived(size_t bytes, uint64_t now_ns) {
    if (now_ == most_ || (arrived_ += bytes) < kProof * now_) [[likely]]
      return;
    arrived_ = 0;
    const size_t next = std::min(2 * now_, most_);
    if (next >= too_long_ && now_ns < retry_at_ns_) return;
    retried_ = next >= too_long_;
    now_ = next;
  }

 private:
  /// Losses in a row that are hardly chance: 1 in 10^6 at 1 % loss.
  static constexpr uint32_t kFailuresToSplit = 3;
  static constexpr size_t kProof = 16;  ///< full packets that must have arrived before longer ones are tried
  /// Before a length that failed is tried again, doubled each time; RFC 8899, 5.1.1 has 600 s (PMTU_RAISE_TIMER).
  static constexpr uint64_t kFirstWait_ns = 1'000'000'000, kMaxWait_ns = 600'000'000'000;

  size_t least_, most_, now_;
  size_t too_long_ = ~size_t{0};
  size_t arrived_ = 0;    ///< since the length has changed
  bool retried_ = false;  ///< the present length failed before
  uint64_t wait_ns_ = kFirstWait_ns, retry_at_ns_ = 0;
};

}  // namespace tern
