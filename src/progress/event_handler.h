// The event thread (Asthagiri and LA-MPI's event-driven progress; MPI 5.0, 2.9: progress): asleep until a path has
// something, then it does what a poll of the application would, while the application computes. This is its mechanism:
// what it does next is the policy's (event_policy.h), its thread and timer are the port's (event_port.h).
//
// A thread that is woken by every message costs 15 us and up to 22 % of the bandwidth. This one watches only while the
// application stays away. Who watches (RankLock::watch), why no hand-over is lost:
//
//            take_over, work (inside)
//          ┌─────────────────────────> timer ──┐ its end (the thread, which then goes inside)
//       nobody <───────────────────────────────┘
//          │ ^
//          │ └─────────────────────────────────┐ something came (the thread, which then goes inside),
//          └─────────────────────────> paths ──┘ or the application is back (inside)
//            take_over, work (inside)
//
// There is one timer. Whoever changes to `timer` or `paths` sets it after that, to the grace or to the paths' deadline,
// and only the thread ends `timer`. Whoever changes to `nobody` is inside and hands over when it leaves (RankLock), or
// is on its way inside and then decides anew; a thread that finds the application there leaves that to it.
// Thread rule: inside (rank_lock.h), but for on_wake, which is the thread's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "progress/engine.h"
#include "progress/event_policy.h"
#include "progress/event_port.h"
#include "progress/rank_lock.h"

namespace tern {

class EventHandler {
 public:
  /// `needed`: whether there is something to look after while the application is away. Nothing is owned. The caller
  /// makes it the lock's and the engine's handler; all paths are known by now. Enables the lock where the port has no
  /// barrier.
  EventHandler(ProgressEngine& engine, RankLock& lock, EventPort& port, std::function<Need()> needed,
               const EventLimits& limits = {});
  /// The port has stopped. Under the rank's lock, if there is one.
  ~EventHandler();
  EventHandler(const EventHandler&) = delete;
  EventHandler& operator=(const EventHandler&) = delete;

  // --- The application, by RankLock, when it leaves the library.
  /// Whether there is something to look after. Who asks often in vain is not asked again for a while: then the timer
  /// runs.
  Need need();
  /// While nobody covers what is needed. Returns what is needed now, and is covered. `again`: the application has not
  /// been back since this was called last.
  Need take_over(bool again);
  /// The thread sleeps on the paths: what was begun meanwhile may have a deadline, and who comes and goes all the time
  /// does not stay away.
  void note_leave();
  /// The application waits inside: it must not share its wake-ups.
  void stand_aside() {
    if (armed_) [[unlikely]]
      disarm();
  }

  /// The thread's sleep is over: `tick`: the timer has ended; `ready`: a path is readable. Either may be false alarm.
  void on_wake(bool tick, bool ready);

 private:
  using Step = EventPolicy::Step;
  using Action = EventPolicy::Action;

  /// What is to be looked after; nothing while a thread of the application sleeps inside: that one drives.
  Need pending() const { return engine_.idle().sleepers == 0 ? needed_() : Need::nothing; }
  void carry_out(const Action& action);
  void watch_timer(uint64_t grace_ns);
  void watch_later(uint64_t within_ns);
  bool arm();
  void sleep_on_paths();
  void follow_deadline();
  void disarm();
  void work();
  void stop_watching_paths();
  bool poll_round();
  bool end_watch(Watch which);
  void set_timer(uint64_t after_ns);
  void let_timer_end_by(uint64_t latest_ns);

  ProgressEngine& engine_;
  RankLock& lock_;
  EventPort& port_;
  const std::function<Need()> needed_;
  const EventLimits limits_;
  EventPolicy policy_;
  bool armed_ = false;                      ///< all paths are, for the thread, which sleeps on them
  uint64_t deadline_ns_ = 0;                ///< of the paths, as far as the timer knows it; while armed_
  std::atomic<uint64_t> timer_ends_ns_{0};  ///< clock time; in the past: it is not set
  std::atomic<uint32_t> seen_turns_{0};     ///< the lock's when the timer was set; changed only by who sets it
};

}  // namespace tern
