#include "sim/event_thread.h"

#include <algorithm>

namespace tern::sim {

void EventStation::attach(EventClient* handler, Driving* lock) {
  handler_ = handler;
  lock_ = lock;
  polled_ = nullptr;
  ++timer_;
  tick_ = watching_ = false;
}

void EventStation::set_timer(uint64_t after_ns) {
  Scheduler& scheduler = strand_.scheduler();
  tick_ = false;
  scheduler.at(std::max(strand_.now_ns(), scheduler.now_ns()) + after_ns, *this, EventKind::timer, strand_.rank(),
               ++timer_);
}

// The timer has ended. While the application is inside, the thread finds just that, in parallel; else it runs in
// `compute`.
void EventStation::on_event(EventKind, uint64_t generation) {
  if (generation != timer_ || !handler_ || strand_.stopped() || strand_.finished()) return;
  if (!computing_ && !sleeping_ && lock_->enabled()) {
    tick_ = true;  // it waits for the mutex
    return;
  }
  if (!computing_ && lock_->application_waits()) {
    if (!cores_.has_free()) strand_.charge_ns(wake_ns_);
    handler_->on_wake(true, false);
    return;
  }
  tick_ = true;
  if (computing_ || sleeping_) strand_.wake(0);
}

bool EventStation::serve_sleeper(uint64_t deadline_ns) {
  uint64_t nothing = 0;
  if (!tick_) {
    sleeping_ = true;
    strand_.block(deadline_ns, "waiting for the event thread");
    sleeping_ = false;
  }
  if (!tick_ && (!watching_ || strand_.now_ns() >= deadline_ns)) return strand_.now_ns() < deadline_ns;
  run_thread(!tick_, nothing);
  return true;
}

void EventStation::run_thread(bool ready, uint64_t& left_ns) {
  const bool beside = cores_.has_free();
  const uint64_t began_ns = strand_.now_ns();
  const bool tick = tick_;
  tick_ = false;
  if (ready) watching_ = false;
  strand_.charge_ns(wake_ns_);
  handler_->on_wake(tick, ready);
  if (beside) left_ns -= std::min(left_ns, strand_.now_ns() - began_ns);
}

// Of the thread that polls all the time; whether it handled anything.
bool EventStation::take_turn(uint64_t& left_ns) {
  const bool beside = cores_.has_free();
  const uint64_t began_ns = strand_.now_ns();
  const bool handled = handler_->on_turn();
  if (beside) left_ns -= std::min(left_ns, strand_.now_ns() - began_ns);
  return handled;
}

// Computes for a while, at most until the thread gets its core; returns how much is left.
uint64_t EventStation::compute_slice(uint64_t left_ns) {
  const bool has_free = cores_.has_free(), turns_end_slices = polled_ && !has_free;
  if (polled_ && has_free && !polled_->arm_all(Driving::Armed::helper)) {
    strand_.charge_ns(kTurn_ns);
    return left_ns - std::min(left_ns, kTurn_ns);
  }
  const uint64_t began = strand_.now_ns(), interrupted = strand_.interrupted_ns();
  const uint64_t part = cores_.oversubscribed() || turns_end_slices ? std::min(left_ns, kSlice_ns) : left_ns;
  const uint64_t lasts = cores_.stretched(part);
  computing_ = true;
  do {
    strand_.block(began + lasts, "computing");
  } while (turns_end_slices && !tick_ && strand_.now_ns() < began + lasts);
  computing_ = false;
  if (polled_ && has_free) polled_->disarm_all();
  const uint64_t passed = strand_.now_ns() - began - (strand_.interrupted_ns() - interrupted);
  // Only slices are stretched: of a whole burst, `passed * part` may exceed 64 bits.
  const uint64_t done = passed >= lasts ? part : lasts == part ? passed : passed * part / lasts;
  left_ns -= done;
  computed_ns_ += done;
  if (passed < lasts && watching_ && !tick_) run_thread(true, left_ns);
  return left_ns;
}

void EventStation::compute(uint64_t ns) {
  if (!handler_ && !cores_.oversubscribed()) return strand_.charge_ns(ns);
  ++cores_.computing;
  for (uint64_t left = ns; left != 0;) {
    strand_.catch_up();
    if (tick_) run_thread(false, left);
    else if (!polled_ || !take_turn(left)) left = compute_slice(left);
  }
  --cores_.computing;
}

}  // namespace tern::sim
