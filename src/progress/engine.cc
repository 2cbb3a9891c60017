#include "progress/engine.h"

namespace tern {

ProgressEngine::ProgressEngine(Clock& clock, Driving& driving, WaitPort& port, const WaitPolicy::Setup& setup,
                               Counters* counters, Recorder* tracer)
    : Rounds(driving, counters), clock_(clock), pauses_(0), port_(port), tracer_(tracer), policy_(setup) {
  pauses_ = port.virtual_time() ? 0 : policy_.pauses();
}

void ProgressEngine::add(Pollable& pollable, uint32_t interval) {
  append(pollable, interval);
  if (Successor* helper = driving_.successor()) helper->stand_aside();
  if (driving_.armed_for != Driving::Armed::nobody) wake();
}

// A thread that follows wakes who sleeps on the paths (`follow`).
void ProgressEngine::note_unarmed() {
  if (Successor* helper = driving_.successor()) helper->stand_aside();
  if (driving_.armed_for != Driving::Armed::nobody) driving_.unarmed = true;
}

// Who sleeps does it: the thread that has found it may be about to leave, or be the helper.
void ProgressEngine::set_between_polls(BetweenPolls* work) {
  between_polls_ = work;
  if (work) wake();
}

void ProgressEngine::count_wait(uint64_t& since_ns) {
  counters_.wait += clock_.now_ns() - since_ns;
  since_ns = 0;
}

void ProgressEngine::notify_sleepers() {
  if (driving_.enabled() && !driving_.is_mine()) return;
  if (driving_.polling) driving_.changed = true;
  else wake();
}

void ProgressEngine::keep_awake(bool on) {
  uint32_t& kept = driving_.sleep.kept_awake;
  TERN_ASSERT(on || kept != 0);
  if (on) ++kept;
  else --kept;
  if (on) wake();
}

}  // namespace tern
