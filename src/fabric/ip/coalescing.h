// Whether a small message may wait for the next ones, to leave with them in one segment (TCP) or datagram (UDP).
// Handing a segment to the network costs 4 us on a loopback, adding to one in the kernel (MSG_MORE) 1 us, in the rank
// 0.1 us.
//
// Only within a burst (no poll between its messages). Its first message leaves at once, unless the last kTrust messages
// after a poll were each followed by another one: so a rank that sends and then waits, or sends now and then, is not
// affected. A rank that computes after a burst would delay the end of the
// burst, so bursts are watched: messages wait only when the last kTrust bursts were each followed by a poll within
// kSoon_ns. After a burst without, more such bursts are asked for, the more the later the poll was: on average a burst
// is delayed by kDelay_ns at most. (One in some thousand is a little late because of the scheduler.) What waits in the
// kernel leaves after 200 ms at the latest. What waits in the rank leaves with its next call; so over TCP messages wait
// in the rank only if it surely makes one: it holds a request (ProgressEngine::release_held), or has an event thread.
// (Over UDP all messages may wait there: lost packets wait for this rank's next call, too.)
//
// Units: nanoseconds, bytes. Thread rule: a value of its lane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tern {

class Coalescing {
 public:
  /// A longer message gets a segment of its own. (TCP streams on a loopback, without and with waiting: 4 KiB 0.70 and
  /// 2.15 GB/s, 8 KiB 1.35 and 2.96, 16 KiB 2.30 and 3.67, 32 KiB 3.76 and 3.53.)
  static constexpr size_t kMaxBytes = 16 * 1024;

  /// A message leaves now; `polls`: of this rank so far. True: it may wait for the next one.
  bool may_wait(uint64_t now_ns, uint64_t polls) {
    const bool burst = polls == polls_ && now_ns - last_ns_ < kSoon_ns;
    polls_ = polls;
    last_ns_ = now_ns;
    if (!burst) {
      followed_ = alone_ ? 0 : std::min(followed_ + 1, kTrust);
      alone_ = true;
      if (followed_ < kTrust || trust_ < needed_) return false;
    } else {
      alone_ = false;
    }
    if (!open_ || now_ns - since_ns_ >= kSoon_ns) {  // older messages leave together with this one
      const bool first = !open_;
      open_ = true;
      since_ns_ = now_ns;
      if (!first) return false;
    }
    return trust_ >= needed_;
  }
  /// A burst is watched: `end` must be called in the next poll.
  bool open() const { return open_; }
  /// The next poll. True: messages may have waited for it.
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
  /// Longest wait of a message: what handing five segments over costs on a loopback.
  static constexpr uint64_t kSoon_ns = 20'000;
  /// Average delay of a burst's end: half of what a saved segment costs (4 us).
  static constexpr uint64_t kDelay_ns = 2'000;
  /// A rank that computes after each burst never gets 16 good ones in a row. The maximum only bounds the counter: a
  /// poll 2 s late has to be made up for by a million bursts.
  static constexpr uint32_t kTrust = 16, kMaxTrust = 1 << 20;

  uint64_t polls_ = ~uint64_t{0}, last_ns_ = 0, since_ns_ = 0;
  uint32_t trust_ = 0, needed_ = kTrust;
  uint32_t followed_ = 0;  ///< messages in a row that were the first after a poll and were followed by another
  bool alone_ = true;      ///< the last message was the first after a poll
  bool open_ = false;
};

}  // namespace tern
