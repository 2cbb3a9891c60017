#include "progress/event_handler.h"

#include <algorithm>
#include <new>

#include "base/assert.h"
#include "base/limits.h"

namespace tern {

EventHandler::EventHandler(ProgressEngine& engine, EventPort& port, std::function<Need()> needed,
                           const EventLimits& limits, Arrivals handles)
    : engine_(engine),
      driving_(engine.driving()),
      port_(port),
      needed_(std::move(needed)),
      limits_(limits),
      handles_(handles),
      policy_(limits, handles) {
  if (!port_.has_barrier() || handles == Arrivals::all) driving_.enable();
}

EventHandler::~EventHandler() {
  disarm();
  driving_.expect_helper(false);
  driving_.wake_source().store(WakeSource::nobody, std::memory_order_relaxed);
}

void EventHandler::carry_out(const Action& action) {
  switch (action.step) {
    case Step::watch_timer: watch_timer(action.after_ns); break;
    case Step::watch_later: watch_later(action.after_ns); break;
    case Step::watch_paths: sleep_on_paths(); break;
    case Step::disarm: disarm(); break;
    case Step::set_timer: set_timer(action.after_ns); break;
    case Step::poll_always: begin_turns(); break;
    case Step::arm:
    case Step::poll:
    case Step::come_in:
    case Step::nothing: break;
  }
}

// The timer ends if the application neither enters nor leaves the library meanwhile. Called inside the library.
void EventHandler::watch_timer(uint64_t grace_ns) {
  TERN_DEBUG_ASSERT(grace_ns != 0);
  driving_.helping.seen_turns.store(driving_.turns_outside() + short_calls(), std::memory_order_relaxed);
  driving_.wake_source().store(WakeSource::timer, std::memory_order_relaxed);
  set_timer(grace_ns);
}

// The paths are not watched; one look is taken after `within_ns`. The timer is not set again each time this begins.
void EventHandler::watch_later(uint64_t within_ns) {
  if (driving_.wake_source().load(std::memory_order_relaxed) == WakeSource::later) return;
  TERN_DEBUG_ASSERT(driving_.armed_for != Armed::helper);
  driving_.wake_source().store(WakeSource::later, std::memory_order_relaxed);
  let_timer_end_by(engine_.clock().now_ns() + within_ns);
}

// The thread may go inside without a barrier, since it is expected from now on.
void EventHandler::begin_turns() {
  driving_.expect_helper(true);
  driving_.wake_source().store(WakeSource::always, std::memory_order_relaxed);
  port_.poll_always(true);
}

void EventHandler::end_turns() {
  TERN_DEBUG_ASSERT(driving_.helper_inside() || driving_.enabled());
  port_.poll_always(false);
  driving_.expect_helper(false);
  end_watch(WakeSource::always);
}

// False: the other side has changed it meanwhile, and is responsible for the new state.
bool EventHandler::end_watch(WakeSource which) {
  return driving_.wake_source().compare_exchange_strong(which, WakeSource::nobody, std::memory_order_relaxed);
}

void EventHandler::set_timer(uint64_t after_ns) {
  TERN_DEBUG_ASSERT(after_ns != 0);
  driving_.helping.timer_ends_ns.store(engine_.clock().now_ns() + after_ns, std::memory_order_relaxed);
  port_.set_timer(after_ns);
}

// An earlier end is good enough: the thread then finds what to do next. Called after the watch has changed, so that a
// timer that ends after this finds the new watch.
void EventHandler::let_timer_end_by(uint64_t latest_ns) {
  const uint64_t now = engine_.clock().now_ns(), ends = driving_.helping.timer_ends_ns.load(std::memory_order_relaxed);
  if (ends > now + limits_.timer_ending_ns && ends <= latest_ns) return;
  set_timer(latest_ns > now ? latest_ns - now : 1);
}

// --- The application's side.

Need EventHandler::need() {
  const Need needed = pending();
  if (needed == Need::nothing && policy_.on_idle_leave()) [[unlikely]] {
    const Action action = policy_.on_idle_leaves(engine_.clock().now_ns());
    if (driving_.wake_source().load(std::memory_order_relaxed) == WakeSource::nobody) carry_out(action);
  }
  return needed;
}

// The application's call is over, so an error could not be returned to anybody.
Need EventHandler::take_over(bool again) try {
  // A caller that waits asks each time. The paths are armed anew: what it has begun since may need no event any more.
  if (handles_every_arrival() && driving_.wake_source().load(std::memory_order_relaxed) == WakeSource::always)
    return pending();
  TERN_DEBUG_ASSERT(driving_.successor() == this);
  if (again) policy_.on_used();  // the thread was woken before the application was outside
  disarm();
  Need needed = pending();
  Action action = policy_.on_leave(needed);
  if (action.step == Step::arm) {
    const bool armed = arm();
    policy_.on_tried_to_arm(engine_.clock().now_ns());
    if (armed) return needed;
    needed = pending();
    action = policy_.on_not_armed(needed);
  }
  carry_out(action);
  return needed;
} catch (const std::bad_alloc&) {
  end_without_memory(kInTheBackground);
}

// Handles first what is already here: it would wake the thread at once, on this core, before the application is
// outside. The last poll comes just before the thread watches: in a program of steps, messages of the others arrive
// just then.
bool EventHandler::arm() {
  if (handles_every_arrival()) {
    if (!engine_.arm_all(Armed::helper)) return false;
    sleep_on_paths();
    return true;
  }
  for (uint64_t empty = 0; empty != limits_.empty_polls && pending() == Need::now;) {
    const bool armed = engine_.arm_all(Armed::helper);
    if (engine_.poll_all() != 0) {
      empty = 0;
    } else if (armed && pending() == Need::now) {
      sleep_on_paths();
      return true;
    } else {
      ++empty;
    }
    if (armed) engine_.disarm_all();  // or the closer check has shown that nothing is pending
  }
  return false;
}

void EventHandler::sleep_on_paths() {
  TERN_ASSERT(driving_.armed_for == Armed::helper);
  driving_.expect_helper(true);
  driving_.wake_source().store(WakeSource::paths, std::memory_order_relaxed);
  port_.watch_paths(true);
  driving_.helping.deadline_ns = ~uint64_t{0};
  follow_deadline();
}

// A burst of calls that do not wait (MPI_Isend) finds the paths armed each time.
void EventHandler::note_leave() {
  const Action action = policy_.on_leave_armed(engine_.clock().now_ns());
  if (action.step == Step::disarm) carry_out(action);
  else follow_deadline();
}

void EventHandler::follow_deadline() {
  const uint64_t deadline = engine_.pollable_deadline_ns();
  if (deadline >= driving_.helping.deadline_ns) return;
  driving_.helping.deadline_ns = deadline;
  let_timer_end_by(deadline);
}

// The application is back. The paths are not watched while it is inside: the kernel would wake the thread for every
// message (TCP, 8 B: 0.3 us).
void EventHandler::disarm() {
  if (driving_.armed_for == Armed::helper) {
    stop_watching_paths();
    port_.watch_paths(false);
    engine_.disarm_all();
  }
  if (policy_.tried_to_arm_ns() != 0) policy_.on_return(engine_.clock().now_ns());
}

void EventHandler::stop_watching_paths() {
  driving_.expect_helper(false);
  end_watch(WakeSource::paths);
}

// --- The thread's side.

Woken EventHandler::on_wake(bool tick, bool ready) {
  const WakeSource watch = driving_.wake_source().load(std::memory_order_relaxed);
  const uint32_t turns = driving_.turns() + short_calls();
  const bool stayed_away = turns == driving_.helping.seen_turns.load(std::memory_order_relaxed);
  const Action action = policy_.on_wake(watch, tick, ready, stayed_away);
  if (action.step == Step::nothing) return Woken::idle;
  Counters& counters = engine_.counters();
  if (watch != WakeSource::paths) count_alone(counters.event_ticks);
  if (action.step == Step::set_timer) {
    driving_.helping.seen_turns.store(turns, std::memory_order_relaxed);
    carry_out(action);
    return Woken::idle;
  }
  if (!end_watch(watch)) return Woken::idle;
  if (watch == WakeSource::paths) count_alone(counters.event_wakes);
  if (!driving_.enter_as_helper([this] { port_.barrier(); })) {
    if (watch == WakeSource::paths) count_alone(counters.event_wakes_empty);
    return Woken::idle;
  }
  Woken woken = Woken::idle;
  TERN_DEBUG_ASSERT(driving_.helper_inside());
  const Action inside = policy_.on_inside(watch, pending());
  if (inside.step == Step::poll) {
    Recorder* tracer = watch == WakeSource::paths ? engine_.tracer() : nullptr;
    const uint64_t began_ns = tracer ? Recorder::now_ns() : 0;
    const uint64_t answers = counters.rma_answers;
    work();
    if (handles_every_arrival()) engine_.ask_waiting();
    woken = counters.rma_answers == answers ? Woken::worked : Woken::answered;
    if (tracer) tracer->add_event_thread_work(began_ns);
  } else {
    carry_out(inside);
  }
  driving_.leave_as_helper();
  return woken;
}

// A thread of the application that sleeps has the paths armed, and was woken by what comes.
bool EventHandler::on_turn() {
  if (!driving_.try_enter_as_helper()) return false;
  int handled = 0;
  TERN_DEBUG_ASSERT(driving_.helper_inside());
  if (!sleeper_polls()) handled = engine_.poll();
  engine_.counters().event_handled += uint64_t(handled);
  if (policy_.on_turn(needed_()).step == Step::poll) {
    end_turns();
    work();
  }
  driving_.leave_as_helper();
  return handled != 0;
}

// Polls until nothing more arrives, then arms again. Arming also tells senders how much has arrived.
void EventHandler::work() {
  if (sleeper_polls()) return;  // a thread of the application was woken by the same event
  if (driving_.armed_for == Armed::helper) {
    engine_.disarm_all();
    stop_watching_paths();
  }
  policy_.on_used();
  Action action;
  do {
    const bool handled = poll_round();
    action = policy_.on_round(handled, driving_.application_waits());
    if (action.step != Step::arm) {
      carry_out(action);
      return;
    }
  } while (!engine_.arm_all(Armed::helper));
  action = policy_.on_settled(pending());
  if (action.step != Step::watch_paths) {
    engine_.disarm_all();
    port_.watch_paths(false);
  }
  carry_out(action);
}

// One poll, or several until nothing more is arriving. A thread that waits for the mutex cannot be seen, so with a
// mutex it polls only once and then gives the mutex up.
bool EventHandler::poll_round() {
  int handled = 0;
  do {
    TERN_DEBUG_ASSERT(driving_.armed_for != Armed::helper);
    handled += engine_.poll_all();
  } while (!driving_.application_waits() && !driving_.enabled() && engine_.arriving());
  engine_.counters().event_handled += uint64_t(handled);
  return handled != 0;
}

}  // namespace tern
