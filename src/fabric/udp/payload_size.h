// How long the packets to a peer may be. What both hosts allow may be too much for a router between them, or for the
// peer's receive buffer, and nobody need say so: what has been repeated in vain is split, and what follows is as short
// (RFC 8899, 4.3). Packets become longer again when those of the present length arrive; as long as what failed only
// after a while. Units: bytes of payload, nanoseconds. Thread rule: a value of its peer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tern {

class PayloadSize {
 public:
  /// `least`: what every network carries.
  PayloadSize(size_t least, size_t most) : least_(std::min(least, most)), most_(most), now_(most) {}

  /// Of a full packet that is built now.
  size_t now() const { return now_; }
  /// Whether a packet that was sent so often, and as often given up, should be split.
  bool in_vain(size_t bytes, uint32_t sendings) const { return bytes > now_ || (bytes > least_ && sendings >= kVain); }
  /// The length of the pieces, and of what follows. `silent`: nothing else has arrived either, so what would is not
  /// known.
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
  static constexpr uint32_t kVain = 3;
  static constexpr size_t kProof = 16;  ///< full packets that must have arrived before longer ones are tried
  static constexpr uint64_t kFirstWait_ns = 1'000'000'000, kMaxWait_ns = 600'000'000'000;

  size_t least_, most_, now_;
  size_t too_long_ = ~size_t{0};
  size_t arrived_ = 0;    ///< since the length has changed
  bool retried_ = false;  ///< the present length failed before
  uint64_t wait_ns_ = kFirstWait_ns, retry_at_ns_ = 0;
};

}  // namespace tern
