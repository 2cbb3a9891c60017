// Admission: the connections that have come and not proven the job key yet, and who of them has to go when there is no
// room. What is not proven costs little: at most kMaxUnproven connections of a few KiB each, a deadline, and silence
// towards those that fail.
//
// Owns nothing: connections are dropped by the caller. Units: nanoseconds. Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "fabric/tcp/links.h"

namespace tern::tcp {

class Admission {
 public:
  /// Connections in their handshake at one time. A peer's hello comes with its connection, and one that has greeted
  /// is the last to be put out, so a flood of others does not displace it.
  static constexpr size_t kMaxUnproven = 256;

  ~Admission() {
    while (unproven_.pop_front()) {
    }
  }
  size_t unproven() const { return count_; }
  bool full() const { return count_ >= kMaxUnproven; }
  void add(Setup& setup, uint64_t now_ns) {
    setup.deadline_ns = now_ns + kUnprovenDeadline_ns;
    unproven_.push_back(&setup);
    ++count_;
  }
  /// It is proven, or gone. Nothing for a call of our own.
  void remove(Setup& setup) {
    if (!setup.linked()) return;
    setup.unlink();
    --count_;
  }
  /// Who has to go for another: the oldest of those that have not even greeted, else the oldest if it had its time.
  /// Null: nobody.
  Setup* victim(uint64_t now_ns) {
    Setup* setup = unproven_.front();
    while (setup && setup->handshake.greeted()) setup = unproven_.next(setup);
    if (setup) return setup;
    setup = unproven_.front();
    constexpr uint64_t kLeft_ns = kUnprovenDeadline_ns - kGreetedGrace_ns;  // what a deadline past its grace has left
    return setup && setup->deadline_ns <= now_ns + kLeft_ns ? setup : nullptr;
  }
  /// Whose time is over; null: nobody's.
  Setup* expired(uint64_t now_ns) {
    Setup* oldest = unproven_.front();
    return oldest && oldest->deadline_ns <= now_ns ? oldest : nullptr;
  }

  // --- Without a place or a descriptor for them, callers stay in the kernel's queue for a while.
  /// Somebody waits there, and there is no descriptor for it. True: it has been so for `limit_ns`, without a pause.
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
    constexpr uint64_t kNever = ~uint64_t{0};
    const Setup* oldest = const_cast<IntrusiveList<Setup>&>(unproven_).front();  // the list is in their order
    return std::min(oldest ? oldest->deadline_ns : kNever, paused() ? paused_until_ns_ : kNever);
  }

 private:
  static constexpr uint64_t kMs = 1'000'000;
  // A peer may call and then compute before it looks at the answer; there is no hurry while there is room.
  static constexpr uint64_t kUnprovenDeadline_ns = 60'000 * kMs;
  // One that has greeted keeps its place so long, even when all places are taken.
  static constexpr uint64_t kGreetedGrace_ns = 1000 * kMs;
  static constexpr uint64_t kPause_ns = 20 * kMs;
  // Between two looks at a queue the rank may have computed, and what was short then need not be short any more.
  static constexpr uint64_t kSameShortage_ns = 1000 * kMs;

  IntrusiveList<Setup> unproven_;  ///< oldest first
  size_t count_ = 0;
  uint64_t paused_until_ns_ = 0;  ///< 0: listeners are watched
  uint64_t first_shortage_ns_ = 0, last_shortage_ns_ = 0;
};

}  // namespace tern::tcp
