// Whether a small message may wait for the next ones, to leave with them in one segment (TCP), datagram (UDP) or frame
// (libfabric).
// Handing a segment to the network costs 4 us on a loopback, adding to one in the kernel (MSG_MORE) 1 us, in the rank
// 0.1 us.
//
// Only within a burst (no poll between its messages). Its first message leaves at once, unless the sender holds a
// request (it did not block) and most of those before it were followed by another one: so a rank that sends and then
// waits, answers before it goes on, or sends now and then, is not affected.
//
// A rank that computes after a burst would delay the end of the burst, so bursts are watched. A poll that comes later
// than kSoon_ns is a debt of that time. Each message of a burst but the first pays kDelay_ns, and messages wait only
// while there is no debt. So delays are at most half of what joining the bursts saves. (A stream of thousands without a
// poll pays, too; the scheduler makes its end late now and then.)
//
// What waits in the kernel leaves after 200 ms at the latest. What waits in the rank leaves with its next call; so over
// TCP and libfabric messages wait in the rank only if it surely makes one: it holds a request
// (ProgressEngine::release_held), or has an event thread. (Over UDP all messages may wait there: lost packets wait for
// this rank's next call, too.)
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

  /// A message leaves now; `polls`: of this rank so far; `blocking`: its sender holds no request. True: it may wait for
  /// the next one.
  bool may_wait(uint64_t now_ns, uint64_t polls, bool blocking) {
    const bool burst = polls == polls_ && now_ns - last_ns_ < kSoon_ns;
    polls_ = polls;
    last_ns_ = now_ns;
    const bool in_debt = debt_ns_ != 0;
    if (burst) {
      alone_ = false;
      debt_ns_ -= std::min(debt_ns_, kDelay_ns);
    } else {
      firsts_followed_ = alone_ ? firsts_followed_ / 2 : std::min(firsts_followed_ + 1, kMostFirsts);
      alone_ = true;
      if (blocking || firsts_followed_ < kMostFirsts / 2 || in_debt) return false;
    }
    if (!open_ || now_ns - since_ns_ >= kSoon_ns) {  // older messages leave together with this one
      const bool first = !open_;
      open_ = true;
      since_ns_ = now_ns;
      if (!first) return false;
    }
    return !in_debt;
  }
  /// The message has left: what the kernel took for it is no delay of the program's.
  void has_left(uint64_t now_ns) { last_ns_ = now_ns; }
  /// A burst is watched: `end` must be called in the next poll.
  bool open() const { return open_; }
  /// The next poll. True: messages may have waited for it.
  bool end(uint64_t now_ns) {
    const bool waited = debt_ns_ == 0;
    open_ = false;
    const uint64_t late_ns = now_ns - last_ns_;
    if (late_ns >= kSoon_ns) debt_ns_ = std::min(debt_ns_ + late_ns, kMaxDebt_ns);
    return waited;
  }

 private:
  /// Longest wait of a message: what handing five segments over costs on a loopback.
  static constexpr uint64_t kSoon_ns = 20'000;
  /// Half of what a segment costs (4 us), which each message saves that leaves with another.
  static constexpr uint64_t kDelay_ns = 2'000;
  /// At first: what 16 messages pay. The maximum, of a million, only bounds the time until a program is known anew.
  static constexpr uint64_t kFirstDebt_ns = 16 * kDelay_ns, kMaxDebt_ns = 2'000'000'000;
  static constexpr uint32_t kMostFirsts = 16;

  uint64_t polls_ = ~uint64_t{0}, last_ns_ = 0, since_ns_ = 0;
  uint64_t debt_ns_ = kFirstDebt_ns;
  uint32_t firsts_followed_ = 0;  ///< first messages of bursts that another followed, less those without
  bool alone_ = true;             ///< the last message was the first after a poll
  bool open_ = false;
};

}  // namespace tern
