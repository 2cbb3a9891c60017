// Admission: incoming connections that have not proven the job key yet, and which of them is dropped when there is no
// room. They cost little: at most kMaxUnproven connections of a few KiB each, a deadline, and no answer to those that
// fail.
//
// Owns nothing: connections are dropped by the caller. Units: nanoseconds. Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/clock.h"
#include "base/intrusive_list.h"
#include "fabric/tcp/links.h"

namespace tern::tcp {

class Admission {
 public:
  /// Connections in their handshake at one time. A peer's hello comes with its connection, and one that has greeted is
  /// dropped last, so a flood of others does not displace it; 256 of a few KiB each are a MiB or two.
  static constexpr size_t kMaxUnproven = 256;

  ~Admission() {
    while (unproven_.pop_front()) {
    }
  }
  size_t unproven() const { return count_; }
  bool full() const { return count_ >= kMaxUnproven; }
  void add(Setup& setup, uint64_t now_ns) {
    setup.deadline_ns = now_ns + kUnprovenDeadline_ns;
    TERN_DEBUG_ASSERT(!setup.linked());
    unproven_.push_back(&setup);
    ++count_;
  }
  /// It is proven, or gone. No effect on a call of this rank's own.
  void remove(Setup& setup) {
    if (!setup.linked()) return;
    setup.unlink();
    TERN_DEBUG_ASSERT(count_ != 0);
    --count_;
  }
  /// Which connection to drop for a new one: the oldest that has not even greeted, else the oldest if its grace is
  /// over. Null: none.
  Setup* victim(uint64_t now_ns) {
    Setup* setup = unproven_.front();
    while (setup && setup->handshake.greeted()) setup = unproven_.next(setup);
    if (setup) return setup;
    setup = unproven_.front();
    constexpr uint64_t kLeft_ns = kUnprovenDeadline_ns - kGreetedGrace_ns;  // what a deadline past its grace has left
    return setup && setup->deadline_ns <= now_ns + kLeft_ns ? setup : nullptr;
  }
  /// A connection whose deadline has passed; null: none.
  Setup* expired(uint64_t now_ns) {
    Setup* oldest = unproven_.front();
    return oldest && oldest->deadline_ns <= now_ns ? oldest : nullptr;
  }

  // --- While there is no place or descriptor for them, callers stay in the kernel's queue.
  /// A caller waits there, and there is no descriptor for it. True: it has been so for `limit_ns`, without a pause.
  bool starved(uint64_t now_ns, uint64_t limit_ns) {
    if (last_shortage_ns_ == 0 || now_ns - last_shortage_ns_ > kSameShortage_ns) first_shortage_ns_ = now_ns;
    last_shortage_ns_ = now_ns;
    return now_ns - first_shortage_ns_ >= limit_ns;
  }
  void fed() { last_shortage_ns_ = 0; }
  void pause(uint64_t now_ns) { paused_until_ns_ = now_ns + kPause_ns; }
  bool paused() const { return paused_until_ns_ != 0; }
  /// True: accepting goes on.
  bool resume(uint64_t now_ns) {
    if (paused_until_ns_ == 0 || now_ns < paused_until_ns_) return false;
    paused_until_ns_ = 0;
    return true;
  }
  uint64_t next_deadline_ns() const {
    const Setup* oldest = const_cast<IntrusiveList<Setup>&>(unproven_).front();  // the list is in their order
    return std::min(oldest ? oldest->deadline_ns : kNever_ns, paused() ? paused_until_ns_ : kNever_ns);
  }

 private:
  // A peer may connect and then compute before it reads the answer; so be generous while there is room: a minute, twice
  // the default of TERN_TCP_CONNECT_TIMEOUT_S, after which the peer has given up itself.
  static constexpr uint64_t kUnprovenDeadline_ns = 60 * kSecond_ns;
  // A connection that has greeted keeps its place for this long even when all places are taken: the rest of the
  // handshake takes some round trips, and one repetition of a lost packet (0.2 s).
  static constexpr uint64_t kGreetedGrace_ns = kSecond_ns;
  // Accepting is tried again so often: 50 useless wake-ups a second cost little.
  static constexpr uint64_t kPause_ns = 20 * kMillisecond_ns;
  // Between two looks at a queue the rank may have computed, and what was short then need not be short any more.
  static constexpr uint64_t kSameShortage_ns = kSecond_ns;

  IntrusiveList<Setup> unproven_;  ///< oldest first
  size_t count_ = 0;
  uint64_t paused_until_ns_ = 0;  ///< 0: listeners are watched
  uint64_t first_shortage_ns_ = 0, last_shortage_ns_ = 0;
};

}  // namespace tern::tcp
