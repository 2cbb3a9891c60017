// Whether a small message may wait for the next ones, to leave with them in one segment (TCP) or datagram (UDP):
// handing a segment to the network costs 4 us on a loopback, adding to one in the kernel (MSG_MORE) 1 us, in the rank
// 0.1 us.
//
// Only in a burst, with no poll between its messages, the first of which always leaves at once: a rank that sends and
// then waits, or sends now and then, sends as ever. A rank that computes after a burst would delay its end, so bursts
// are watched: what could have waited does only when the last kTrust bursts were followed by a poll within kSoon_ns.
// Whoever breaks that has to earn it anew, the longer the later that poll was: on average a burst is delayed by
// kDelay_ns at most. (One in some thousand is late by the scheduler's doing, a little.) What waits in the kernel leaves
// after 200 ms at the latest; what waits in the rank, with its next call, so over TCP that is done only where somebody
// comes back for it: whoever has a request (ProgressEngine::release_held), or the event thread. (Over UDP, where lost
// packets wait for this rank's next call, too, everything does.)
//
// Units: nanoseconds, bytes. Thread rule: a value of its lane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tern {

class Coalescing {
 public:
  /// A longer message is worth a segment of its own. (TCP streams on a loopback, without and with: 4 KiB 0.70 and 2.15
  /// GB/s, 8 KiB 1.35 and 2.96, 16 KiB 2.30 and 3.67, 32 KiB 3.76 and 3.53.)
  static constexpr size_t kMaxBytes = 16 * 1024;

  /// A message leaves now, after so many polls of this rank. True: it may wait for the next.
  bool may_wait(uint64_t now_ns, uint64_t polls) {
    const bool burst = polls == polls_ && now_ns - last_ns_ < kSoon_ns;
    polls_ = polls;
    last_ns_ = now_ns;
    if (!burst) return false;
    if (!open_ || now_ns - since_ns_ >= kSoon_ns) {  // what has waited so long leaves with this one
      const bool first = !open_;
      open_ = true;
      since_ns_ = now_ns;
      if (!first) return false;
    }
    return trust_ >= needed_;
  }
  /// A burst is watched: `end` wants to be called in the next poll.
  bool open() const { return open_; }
  /// The next poll. True: something may have waited for it.
  bool end(uint64_t now_ns) {
    const bool waited = trust_ >= needed_;
    open_ = false;
    const uint64_t late_ns = now_ns - last_ns_;
    if (late_ns < kSoon_ns) {
      trust_ += !waited;
    } else {
      if (waited) needed_ = uint32_t(std::clamp<uint64_t>(late_ns / kDelay_ns, kTrust, kMaxTrust));
      trust_ = 0;
    }
    return waited;
  }

 private:
  static constexpr uint64_t kSoon_ns = 20'000;
  static constexpr uint64_t kDelay_ns = 2'000;
  static constexpr uint32_t kTrust = 16, kMaxTrust = 1 << 20;

  uint64_t polls_ = ~uint64_t{0}, last_ns_ = 0, since_ns_ = 0;
  uint32_t trust_ = 0, needed_ = kTrust;
  bool open_ = false;
};

}  // namespace tern
