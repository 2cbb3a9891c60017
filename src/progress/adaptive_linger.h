// Whether the event thread keeps polling for up to 50 us before it sleeps again.
//
// Many one-sided operations come as several messages, some microseconds apart: the head of a batch, its data, the
// request for a confirmation, which is answered. A thread that has gone to sleep in between costs the origin 7 us and
// the computing thread 10. Worse, it has just used the core on which the application computes. Linux's scheduler (6.6
// and later) lets a woken thread take a core only if it has not had more than its share, and asks again at the next
// tick: of wake-ups 10 us after the last one 2 to 20 in 100 wait for up to 4 ms, of those after 200 us 1 in 1000.
//
// So it keeps polling after what it has not answered, if of late the next message has come soon and was answered.
// (After other messages it does not: the next part of a long one may come soon, but nobody waits for a short answer.)
//
//     asleep ──> head       rest, answered      head     rest, answered      head and rest, answered
//                └ sleeps   └ soon; sleeps      └ polls: found   └ sleeps    └ sleeps
//
// Pure: the next step follows from the calls alone. Thread rule: none; the thread's own. Units: ns.
#pragma once

#include <cstdint>

namespace tern {

class AdaptiveLinger {
 public:
  /// How long it keeps polling: until 64 KiB that follow their head have been copied and sealed (UDP). On the core of
  /// an application that computes a wake-up takes 5 to 10 us, so a message that comes within kLook_ns has woken the
  /// thread by kSoon_ns.
  static constexpr uint64_t kLook_ns = 50'000, kSoon_ns = 60'000;
  /// Empty looks in a row after which the thread looks no more, until an answered message comes soon again. A look
  /// takes kLook_ns from the computing thread. A message that waits for a tick takes some 2 ms from its origin.
  static constexpr uint32_t kTrust = 8;

  /// What has come is handled. `answered`: something went back to an origin. Whether to keep polling for kLook_ns.
  bool looks_after(bool answered) {
    if (answered && soon_) trust_ = kTrust;
    return !answered && trust_ != 0;
  }
  /// A message came while it looked.
  void on_found() { soon_ = true; }
  /// None came.
  void on_none() { --trust_; }
  /// A message has woken it. `after_ns`: since the last one was handled.
  void on_woken(uint64_t after_ns) { soon_ = after_ns < kSoon_ns; }

 private:
  uint32_t trust_ = 0;  ///< 0: it sleeps at once
  bool soon_ = false;   ///< the last message came soon after the one before
};

}  // namespace tern
