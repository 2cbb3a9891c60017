// Whether a small message may wait for the next ones, to leave with them in one segment (TCP: in the kernel) or datagram (UDP): handing a
// segment to the network costs 4 us on a loopback, adding to one 1 us.
//
// Only in a burst, with no poll between its messages, the first of which always leaves at once: a rank that sends and then waits,
// or sends now and then, sends as ever. A rank that computes after a burst would delay its end, so bursts are watched: what could have waited does only when
// the last kTrust bursts were followed by a poll within kSoon_ns. Whoever breaks that has to earn it anew, twice as long each
// time, until eight times as many have been good (one in some thousand is the scheduler's doing): of 128 bursts at most one is
// delayed. (Over TCP by no more than the peer's acknowledgement, or 200 ms: the kernel's limit for MSG_MORE. Over UDP, where lost
// packets wait for this rank's next call, too, it waits for that.)
//
// Units: nanoseconds, bytes. Thread rule: a value of its lane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tern {

class Coalescing {
 public:
  /// A longer message is worth a segment of its own. (TCP streams on a loopback, without and with: 4 KiB 0.70 and 2.15 GB/s, 8 KiB 1.35 and
  /// 2.96, 16 KiB 2.30 and 3.67, 32 KiB 3.76 and 3.53.)
  static constexpr size_t kMostBytes = 16 * 1024;

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
    if (now_ns - last_ns_ < kSoon_ns) {
      ++trust_;
      if (trust_ >= kForgiven * needed_) needed_ = kTrust;
    } else {
      if (waited) needed_ = std::min(2 * needed_, kMostTrust);
      trust_ = 0;
    }
    return waited;
  }

 private:
  static constexpr uint64_t kSoon_ns = 20'000;
  static constexpr uint32_t kTrust = 16, kMostTrust = 1 << 20, kForgiven = 8;

  uint64_t polls_ = ~uint64_t{0}, last_ns_ = 0, since_ns_ = 0;
  uint32_t trust_ = 0, needed_ = kTrust;
  bool open_ = false;
};

}  // namespace tern
