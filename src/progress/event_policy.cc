#include "progress/event_policy.h"
#include "base/assert.h"

#include <algorithm>

namespace tern {

EventPolicy::Action EventPolicy::watch_for(Need needed) const {
  if (needed == Need::always) return {Step::poll_always};
  if (needed == Need::now) return {Step::watch_timer, limits_.first_grace_ns};
  if (needed == Need::later) return {Step::watch_later, limits_.later_ns};
  return {};
}

EventPolicy::Action EventPolicy::on_leave(Need needed) const {
  if (needed == Need::now && (stays_away_ || handles_ == Arrivals::all)) return {Step::arm};
  return watch_for(needed);
}

EventPolicy::Action EventPolicy::on_not_armed(Need needed) const {
  if (needed == Need::now && handles_ == Arrivals::all) return {Step::watch_timer, 1};
  return watch_for(needed);
}

EventPolicy::Action EventPolicy::on_leave_armed(uint64_t now_ns) {
  if (stays_inside(now_ns)) return {Step::disarm};
  TERN_DEBUG_ASSERT(now_ns != 0);
  tried_to_arm_ns_ = now_ns;
  return {};
}

EventPolicy::Action EventPolicy::on_idle_leaves(uint64_t now_ns) {
  const uint64_t before_ns = idle_leaves_ns_;
  idle_leaves_ns_ = now_ns;
  TERN_DEBUG_ASSERT(now_ns >= before_ns);
  if (now_ns - before_ns >= limits_.idle_leaves * limits_.quick_leave_ns) return {};
  return {Step::watch_timer, limits_.first_grace_ns};
}

void EventPolicy::on_return(uint64_t now_ns) {
  if (tried_to_arm_ns_ != 0) stays_inside(now_ns);
  tried_to_arm_ns_ = 0;
}

// True: the application was back soon so often in a row that it counts as staying inside.
bool EventPolicy::stays_inside(uint64_t now_ns) {
  if (handles_ == Arrivals::all) return false;
  const bool soon = tried_to_arm_ns_ != 0 && now_ns - tried_to_arm_ns_ < limits_.soon_ns;
  back_soon_ = soon ? back_soon_ + 1 : 0;
  TERN_DEBUG_ASSERT(handles_ != Arrivals::all && back_soon_ <= limits_.soon_returns);
  if (back_soon_ < limits_.soon_returns) return false;
  back_soon_ = 0;
  tried_to_arm_ns_ = 0;
  stays_away_ = false;
  return true;
}

EventPolicy::Action EventPolicy::on_wake(WakeSource watch, bool tick, bool ready, bool stayed_away) {
  switch (watch) {
    case WakeSource::nobody:
    case WakeSource::always: return {};
    case WakeSource::paths: return {tick || ready ? Step::come_in : Step::nothing};
    case WakeSource::later: return {tick ? Step::come_in : Step::nothing};
    case WakeSource::timer: break;
  }
  if (!tick) return {};
  if (stayed_away || handles_ == Arrivals::all) return {Step::come_in};
  // Every look after a long time may find an application that is away only briefly: a short look follows.
  looks_closely_ = !looks_closely_;
  if (looks_closely_) return {Step::set_timer, limits_.first_grace_ns};
  return {Step::set_timer, next_grace()};
}

uint64_t EventPolicy::next_grace() {
  grace_ns_ = std::max(limits_.first_grace_ns, std::min(2 * grace_ns_, limits_.max_grace_ns));
  return grace_ns_;
}

EventPolicy::Action EventPolicy::on_inside(WakeSource watch, Need needed) {
  empty_rounds_ = 0;
  if (needed == Need::always) return {Step::poll_always};
  if (watch == WakeSource::paths) return {Step::poll};
  if (needed == Need::nothing) return {};
  if (watch == WakeSource::timer) {
    if (needed == Need::later) return watch_for(needed);
    TERN_DEBUG_ASSERT(needed == Need::now);
    stays_away_ = true;
  }
  return {Step::poll};
}

EventPolicy::Action EventPolicy::on_round(bool handled, bool application_waits) {
  empty_rounds_ = handled ? 0 : empty_rounds_ + 1;
  TERN_DEBUG_ASSERT(empty_rounds_ <= limits_.empty_polls);
  if (application_waits) return {};
  if (empty_rounds_ == limits_.empty_polls) return {Step::watch_timer, next_grace()};
  return {Step::arm};
}

EventPolicy::Action EventPolicy::on_turn(Need needed) {
  if (needed == Need::always) return {};
  empty_rounds_ = 0;
  return {Step::poll};
}

EventPolicy::Action EventPolicy::on_settled(Need needed) {
  grace_ns_ = 0;
  if (needed == Need::now) return {Step::watch_paths};
  return watch_for(needed);
}

bool EventPolicy::operator==(const EventPolicy& other) const {
  return stays_away_ == other.stays_away_ && tried_to_arm_ns_ == other.tried_to_arm_ns_ &&
         back_soon_ == other.back_soon_ && idle_leaves_ == other.idle_leaves_ &&
         idle_leaves_ns_ == other.idle_leaves_ns_ && empty_rounds_ == other.empty_rounds_ &&
         grace_ns_ == other.grace_ns_ && looks_closely_ == other.looks_closely_;
}

}  // namespace tern
