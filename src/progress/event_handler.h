// The event thread (Majumder 2004, chapter 4: LA-MPI-ED; MPI 5.0, 2.9: progress): it sleeps until a path has something,
// then polls as the application would, while the application computes. This file is its mechanism; event_policy.h
// decides what it does next; event_port.h has its thread and timer.
//
// A thread that every message wakes costs 15 us and up to 22 % of the bandwidth. This one watches only while the
// application stays outside. The watch (RankLock::watch), and why no hand-over is lost:
//
//            take_over, work (inside)
//          ┌─────────────────────────> timer ──┐ its end (the thread, which then goes inside)
//       nobody <───────────────────────────────┘
//          │ ^
//          │ └─────────────────────────────────┐ something came (the thread, which then goes inside),
//          └─────────────────────────> paths ──┘ or the application is back (inside)
//            take_over, work (inside)
//
// Where somebody must poll all the time (Jiang et al. 2004, section 4.1: a dedicated thread) the watch is `always`: the
// thread takes turns instead of sleeping, inside whenever the application is outside. `always` begins inside, and the
// thread ends it inside.
//
// There is one timer. A change to `timer` or `paths` is followed by setting it, to the grace or to the paths' deadline,
// and only the thread ends `timer`. A change to `nobody` is made inside, and the hand-over follows when that side
// leaves (RankLock); or on the way inside, followed by a new decision. A thread that finds the application inside does
// nothing. Thread rule: inside (rank_lock.h), but for on_wake, which is the thread's.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "progress/engine.h"
#include "progress/event_policy.h"
#include "progress/event_port.h"
#include "progress/rank_lock.h"

namespace tern {

/// What the thread did when it was woken.
enum class Woken : uint8_t {
  idle,      ///< nothing
  worked,    ///< polled the paths
  answered,  ///< also sent answers to the origins of one-sided operations
};

class EventHandler {
 public:
  /// `needed`: whether anything needs polling while the application is outside. Owns nothing. The caller makes this the
  /// handler of the lock and of the engine, after all paths were added. Enables the lock if the port has no barrier.
  EventHandler(ProgressEngine& engine, RankLock& lock, EventPort& port, std::function<Need()> needed,
               const EventLimits& limits = {});
  /// The port has stopped. Under the rank's lock, if there is one.
  ~EventHandler();
  EventHandler(const EventHandler&) = delete;
  EventHandler& operator=(const EventHandler&) = delete;

  // --- The application, called by RankLock when it leaves the library.
  /// Whether anything needs polling. After many empty questions in a short time it is not asked again for a while;
  /// instead the timer runs.
  Need need();
  /// Called when the present watch does not cover what is needed. Returns what is needed now; that is covered then.
  /// `again`: the application has not been inside since the last call of this.
  Need take_over(bool again);
  /// The thread sleeps on the paths. Work begun meanwhile may have a deadline; and an application that enters and
  /// leaves all the time does not count as away.
  void note_leave();
  /// The application waits inside: the paths must not wake the thread as well.
  void stand_aside() {
    if (armed_) [[unlikely]]
      disarm();
  }

  /// What is needed has become Need::always while the application is inside; it may be there for long.
  void poll_always() { take_over(false); }

  /// One turn of the thread while it polls all the time (EventPort::poll_always); whether anything was handled.
  bool on_turn();
  /// The thread's sleep is over: `tick`: the timer has ended; `ready`: a path is readable. Either may be a false alarm.
  Woken on_wake(bool tick, bool ready);

 private:
  using Step = EventPolicy::Step;
  using Action = EventPolicy::Action;

  /// What needs polling; nothing while a thread of the application sleeps inside, since that thread polls.
  Need pending() const { return engine_.idle().sleepers == 0 ? needed_() : Need::nothing; }
  void carry_out(const Action& action);
  void watch_timer(uint64_t grace_ns);
  void watch_later(uint64_t within_ns);
  void begin_turns();
  void end_turns();
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
  bool armed_ = false;                      ///< all paths are armed for the thread, which sleeps on them
  uint64_t deadline_ns_ = 0;                ///< of the paths, as the timer was last set for it; while armed_
  std::atomic<uint64_t> timer_ends_ns_{0};  ///< clock time; in the past: it is not set
  std::atomic<uint32_t> seen_turns_{0};     ///< the lock's turns when the timer was set, by its setter
};

}  // namespace tern
