// When the event thread watches, sleeps, polls, and stops (event_handler.h executes it): a pure table without a clock.
// Each event says what happened and when; the answer says what to do next.
//
//   who, where            event                                                  step
//   application, leaving  somebody must poll all the time                        poll_always
//                         something is pending, nobody watches:
//                           it stayed away the last time                         arm
//                           else                                                 watch_timer, for the first grace
//                         arming failed                                          watch_timer
//                         only what others bring to an end is pending            watch_later
//                         nothing is pending, but it comes and goes all the time watch_timer: that costs less
//                         the paths are armed already                            nothing
//                           ... and it was back soon `soon_returns` times        disarm: it stays inside (also where
//                                                                                the polls of arming left nothing)
//   thread, outside       tick, the application has been inside since            set_timer: alternately twice as long
//                                                                                as before, and for the first grace
//                         tick, the application stayed away                      come_in
//                         the time of `watch_later` is over, a path is readable  come_in
//   thread, inside        the tick found something pending                       poll: the application stays away
//                         a round of polls handled something                     arm
//                           ... `empty_polls` in a row nothing, armed neither    watch_timer, twice as long as before
//                           ... the application waits                            nothing: it hands over when it leaves
//                         armed, something is pending                            watch_paths
//                         armed, nothing is pending any more                     nothing, or watch_later
//                         the tick, or armed: somebody must poll all the time    poll_always
//                         polls all the time, and must no longer                 poll
//
// Of a thread that handles every arrival (Arrivals::all) leaving always arms, the application is never taken to stay
// inside, and what keeps the paths from being armed is handled by the thread at once: the timer ends after 1 ns.
//
// An application that stayed away once probably will again: then leaving arms at once, until it was back soon twice in
// a row.
//
// Thread rule: none; inside (rank_lock.h), but for on_wake, which only the thread calls. Times: a monotonic clock's.
#pragma once

#include <cstdint>

#include "base/need.h"
#include "progress/waiting_limits.h"

namespace tern {

/// What makes the event thread look by itself; in the order of how soon.
/// `always`: the thread polls, and never sleeps.
enum class WakeSource : uint8_t { nobody, later, timer, paths, always };

/// Whether this watch looks soon enough for that need.
constexpr bool covers(WakeSource watch, Need need) {
  if (need == Need::always) return watch == WakeSource::always;
  return need == Need::nothing || watch >= WakeSource::timer || (need == Need::later && watch == WakeSource::later);
}

/// What the event thread handles: what comes while the application is outside, or everything.
enum class Arrivals : uint8_t { outside, all };

class EventPolicy {
 public:
  enum class Step : uint8_t {
    nothing,
    arm,          ///< all paths; then on_tried_to_arm, and on_not_armed if that failed
    disarm,       ///< all paths; the timer watches from then on, if anything is pending
    watch_timer,  ///< the timer ends after `after_ns`
    watch_later,  ///< the timer ends within `after_ns`
    watch_paths,  ///< sleep on the armed paths
    set_timer,    ///< set the timer again; the watch stays
    come_in,      ///< unless the application is inside; then on_inside
    poll,         ///< one round; then on_round
    poll_always,  ///< the thread takes one turn after the other, with on_turn after each
  };
  struct Action {
    Step step = Step::nothing;
    uint64_t after_ns = 0;
    bool operator==(const Action&) const = default;
  };

  explicit EventPolicy(const EventLimits& limits, Arrivals handles = Arrivals::outside)
      : limits_(limits), handles_(handles) {}

  // --- The application leaves.
  /// The present watch does not cover what is needed.
  Action on_leave(Need needed) const;
  Action on_not_armed(Need needed) const;
  /// It leaves, and has tried to arm. Either the thread sleeps on the paths, or the polls before that left nothing to
  /// do. Those polls also end bursts of small messages, which a sender that comes back at once does not want.
  void on_tried_to_arm(uint64_t now_ns) { tried_to_arm_ns_ = now_ns; }
  /// It has entered and leaves again while the thread sleeps on the paths.
  Action on_leave_armed(uint64_t now_ns);
  /// Nothing is needed. True: call on_idle_leaves now.
  bool on_idle_leave() { return ++idle_leaves_ % limits_.idle_leaves == 0; }
  Action on_idle_leaves(uint64_t now_ns);
  /// It is inside, and will wait there or decide anew; it had tried to arm.
  void on_return(uint64_t now_ns);
  /// The thread was woken since the application left: arming was useful.
  void on_used() { tried_to_arm_ns_ = 0; }

  // --- The thread.
  /// Its sleep is over. `tick`: the timer has ended; `ready`: a path's descriptor is readable. `stayed_away`: the
  /// application has neither entered nor left since the timer was set.
  Action on_wake(WakeSource watch, bool tick, bool ready, bool stayed_away);
  /// It is inside, because of `watch`.
  Action on_inside(WakeSource watch, Need needed);
  /// A round of polls is over. The first round follows on_inside.
  Action on_round(bool handled, bool application_waits);
  /// A turn of a thread that polls all the time is over: poll, as after on_inside, if that is not needed any more.
  Action on_turn(Need needed);
  /// All paths are armed, after a round.
  Action on_settled(Need needed);

  bool application_stays_away() const { return stays_away_; }
  uint64_t tried_to_arm_ns() const { return tried_to_arm_ns_; }
  bool operator==(const EventPolicy& other) const;

 private:
  Action watch_for(Need needed) const;
  bool stays_inside(uint64_t now_ns);
  uint64_t next_grace();

  EventLimits limits_;
  Arrivals handles_;
  // Inside:
  bool stays_away_ = false;       ///< it did the last time; else the timer finds out
  uint64_t tried_to_arm_ns_ = 0;  ///< on_tried_to_arm; 0: the thread has worked since, or the application is back
  uint64_t back_soon_ = 0;        ///< how often in a row the application was back soon after that
  uint64_t idle_leaves_ = 0;      ///< how often it has left with nothing pending
  uint64_t idle_leaves_ns_ = 0;   ///< when idle_leaves_ was last a multiple of limits_.idle_leaves
  uint64_t empty_rounds_ = 0;     ///< of the thread, in a row
  // The thread's:
  uint64_t grace_ns_ = 0;       ///< 0: the first grace comes next
  bool looks_closely_ = false;  ///< the timer runs for the first grace
};

}  // namespace tern
