#include "progress/engine.h"

#include <algorithm>

#include "base/assert.h"
#include "progress/event_handler.h"

namespace tern {

void ProgressEngine::add(Pollable& pollable, uint32_t interval) {
  pollable.count_into(counters_);
  pollables_.push_back(&pollable);
  slots_.push_back({&pollable, &pollable.hints(), interval});
  if (handler_) handler_->stand_aside();
  if (armed_ != 0) idle_.wake(*this);
}

void ProgressEngine::end_wait(uint64_t& since_ns) {
  counters_.wait += clock_.now_ns() - since_ns;
  since_ns = 0;
}

void ProgressEngine::call_handler_aside() { handler_->stand_aside(); }

int ProgressEngine::poll() {
  ++round_;
  const bool outer = polling_;
  int done = 0;
  {
    const Polling polling(*this);
    for (const Slot& slot : slots_) {
      if (slot.hints->dormant) continue;
      if (slot.interval == 1 || round_ % slot.interval == 0) done += slot.pollable->poll();
    }
    if (!active_.empty()) [[unlikely]]
      done += advance_all();
  }
  call_others(outer, done);
  return done;
}

// A turn may end itself, or others, or begin new work: `deactivate` corrects the rounds. It may also poll (an operator
// or a callback of the user's does): who has a turn already gets no second one inside of it.
int ProgressEngine::advance_all() {
  struct Guard {
    explicit Guard(Round*& rounds) : innermost(rounds), round{.outer = rounds} { innermost = &round; }
    ~Guard() { innermost = round.outer; }
    Round*& innermost;
    Round round;
  } guard(turns_);
  Round& round = guard.round;
  int done = 0;
  for (Advanceable* work = active_.front(); work; work = round.next) {
    round.next = active_.next(work);
    if (has_turn(*work)) continue;
    round.now = work;
    done += work->advance();
    round.now = nullptr;
  }
  return done;
}

bool ProgressEngine::has_turn(const Advanceable& work) const {
  for (const Round* round = turns_; round; round = round->outer) {
    if (round->now == &work) return true;
  }
  return false;
}

void ProgressEngine::deactivate(Advanceable& work) {
  for (Round* round = turns_; round; round = round->outer) {
    if (round->next == &work) round->next = active_.next(&work);
    if (round->now == &work) round->now = nullptr;
  }
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
  TERN_ASSERT(armed_ == 0);
  if (advance_all() != 0) return false;
  for (Pollable* pollable : pollables_) {
    if (pollable->arm()) {
      ++armed_;
    } else {
      disarm_all();
      return false;
    }
  }
  return true;
}

void ProgressEngine::disarm_all() {
  for (size_t i = 0; i < armed_; ++i) pollables_[i]->disarm();
  armed_ = 0;
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
