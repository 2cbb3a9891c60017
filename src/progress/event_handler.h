// The event thread (Majumder 2004, chapter 4: LA-MPI-ED; MPI 5.0, 2.9: progress): it sleeps until a path has something,
// then polls as the application would, while the application computes. This file is its mechanism; event_policy.h
// decides what it does next; event_port.h has its thread and timer.
//
// A thread that every message wakes costs 15 us and up to 22 % of the bandwidth (Arrivals::all does just that, to
// compare with). This one watches only while the application stays outside. The watch (Driving::watch), and why no
// hand-over is lost:
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
// leaves (driving.h); or on the way inside, followed by a new decision. A thread that finds the application inside does
// nothing. Thread rule: inside (rank_lock.h), but for on_wake, which is the thread's.
#pragma once

#include <cstdint>
#include <functional>

#include "progress/driving.h"
#include "progress/engine.h"
#include "progress/event_policy.h"
#include "progress/event_port.h"

namespace tern {

class EventHandler final : public Successor, public EventClient {
 public:
  /// `needed`: whether anything needs polling while the application is outside. Owns nothing. The caller makes this the
  /// successor in the engine's Driving, after all paths were added. Enables the lock if the port has no barrier, or if
  /// the thread handles all arrivals: it is inside while the application waits.
  EventHandler(ProgressEngine& engine, EventPort& port, std::function<Need()> needed, const EventLimits& limits = {},
               Arrivals handles = Arrivals::outside);
  /// The port has stopped. Under the rank's lock, if there is one.
  ~EventHandler();
  EventHandler(const EventHandler&) = delete;
  EventHandler& operator=(const EventHandler&) = delete;

  /// How many calls of the application took no lock, modulo 2^32: who makes such calls is not away. By any thread.
  /// Before the port starts.
  void count_short_calls(std::function<uint32_t()> count) { short_calls_ = std::move(count); }

  // --- The application (driving.h).
  /// After many empty questions in a short time it is not asked again for a while; instead the timer runs.
  Need need() override;
  Need take_over(bool again) override;
  /// Work begun meanwhile may have a deadline; and an application that enters and leaves all the time does not count as
  /// away.
  void note_leave() override;
  void stand_aside() override { disarm(); }
  bool handles_every_arrival() const override { return handles_ == Arrivals::all; }

  /// What is needed has become Need::always while the application is inside; it may be there for long.
  void poll_always() { take_over(false); }

  // --- The thread.
  bool on_turn() override;
  Woken on_wake(bool tick, bool ready) override;

 private:
  using Step = EventPolicy::Step;
  using Action = EventPolicy::Action;
  using Armed = Driving::Armed;

  /// What needs polling; nothing while a thread of the application sleeps inside, since that thread polls.
  Need pending() const { return sleeper_polls() ? Need::nothing : needed_(); }
  bool sleeper_polls() const {
    if (handles_ == Arrivals::all && driving_.armed_for != Armed::sleeper) return false;
    return driving_.sleep.sleeping() != 0;
  }
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
  bool end_watch(WakeSource which);
  void set_timer(uint64_t after_ns);
  void let_timer_end_by(uint64_t latest_ns);
  uint32_t short_calls() const { return short_calls_ ? short_calls_() : 0; }

  ProgressEngine& engine_;
  Driving& driving_;
  EventPort& port_;
  const std::function<Need()> needed_;
  std::function<uint32_t()> short_calls_;  ///< null: there are none
  const EventLimits limits_;
  const Arrivals handles_;
  EventPolicy policy_;
};

}  // namespace tern
