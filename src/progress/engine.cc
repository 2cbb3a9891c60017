#include "progress/engine.h"

#include <algorithm>

#include "progress/event_handler.h"

namespace tern {

void ProgressEngine::add(Pollable& pollable, uint32_t interval) {
  pollable.count_into(counters_);
  pollables_.push_back(&pollable);
  slots_.push_back({&pollable, &pollable.hints(), interval});
}

void ProgressEngine::end_wait(uint64_t& since_ns) {
  counters_.wait += clock_.now_ns() - since_ns;
  since_ns = 0;
}

void ProgressEngine::call_handler_aside() { handler_->stand_aside(); }

int ProgressEngine::poll() {
  ++round_;
  const bool outer = polling_;
  polling_ = true;
  int done = 0;
  for (const Slot& slot : slots_) {
    if (slot.hints->dormant) continue;
    if (slot.interval == 1 || round_ % slot.interval == 0) done += slot.pollable->poll();
  }
  // An advance may end itself, or others, or begin new work: `cursor_` is moved on by deactivate.
  for (Advanceable* work = active_.front(); work; work = cursor_) {
    cursor_ = active_.next(work);
    done += work->advance();
  }
  cursor_ = nullptr;
  polling_ = outer;
  call_others(outer, done);
  return done;
}

void ProgressEngine::deactivate(Advanceable& work) {
  if (cursor_ == &work) cursor_ = active_.next(&work);
  IntrusiveList<Advanceable>::remove(&work);
}

int ProgressEngine::poll_all() {
  int done = 0;
  for (const Slot& slot : slots_) {
    if (slot.interval != 1) done += slot.pollable->poll();
  }
  return done + poll();
}

// A last turn for work that was put off: a call from outside of poll (see `polling`) means that this rank will sleep.
bool ProgressEngine::arm_all() {
  int done = 0;
  for (Advanceable* work = active_.front(); work; work = cursor_) {
    cursor_ = active_.next(work);
    done += work->advance();
  }
  cursor_ = nullptr;
  if (done != 0) return false;
  for (size_t i = 0; i < pollables_.size(); ++i) {
    if (pollables_[i]->arm()) continue;
    for (size_t j = 0; j < i; ++j) pollables_[j]->disarm();
    return false;
  }
  return true;
}

void ProgressEngine::disarm_all() {
  for (Pollable* pollable : pollables_) pollable->disarm();
}

bool ProgressEngine::arriving() const {
  return std::any_of(pollables_.begin(), pollables_.end(),
                     [](const Pollable* pollable) { return pollable->arriving(); });
}

uint64_t ProgressEngine::next_deadline_ns() const {
  return std::min(watch_ ? watch_->next_deadline_ns() : ~uint64_t{0}, pollable_deadline_ns());
}

uint64_t ProgressEngine::pollable_deadline_ns() const {
  uint64_t earliest = ~uint64_t{0};
  for (const Pollable* pollable : pollables_) earliest = std::min(earliest, pollable->next_deadline_ns());
  return earliest;
}

}  // namespace tern
