#include "progress/rounds.h"

#include <algorithm>

#include "base/assert.h"

namespace tern {

void Rounds::append(Pollable& pollable, uint32_t interval) {
  pollable.count_into(counters_);
  TERN_DEBUG_ASSERT(interval != 0 && std::find(pollables_.begin(), pollables_.end(), &pollable) == pollables_.end());
  pollables_.push_back(&pollable);
  slots_.push_back({&pollable, &pollable.hints(), interval});
}

int Rounds::poll_seldom() {
  const Polling polling(driving_);
  int done = 0;
  for (const Slot& slot : slots_) {
    if (slot.interval != 1) done += slot.pollable->poll();
  }
  return done;
}

// A turn may end itself, or others, or begin new work: `deactivate` corrects the turns. It may also poll (an operator
// or a callback of the user's does): work that has a turn already gets no second one inside of it.
int Rounds::advance_all() {
  Advancing turns{.outer = advancing_list_};
  struct Guard {  // apart from `turns`, whose address others see
    ~Guard() {
      innermost = outer;
      advancing = outer != nullptr;
    }
    Advancing*& innermost;
    bool& advancing;
    Advancing* const outer;
  } const guard{advancing_list_, driving_.advancing, advancing_list_};
  advancing_list_ = &turns;
  driving_.advancing = true;
  int done = 0;
  for (Advanceable* work = active_.front(); work; work = turns.next) {
    turns.next = active_.next(work);
    if (has_turn(*work)) continue;
    turns.now = work;
    TERN_DEBUG_ASSERT(work->linked());
    done += work->advance();
    turns.now = nullptr;
  }
  return done;
}

bool Rounds::has_turn(const Advanceable& work) const {
  for (const Advancing* turns = advancing_list_; turns; turns = turns->outer) {
    if (turns->now == &work) return true;
  }
  return false;
}

void Rounds::deactivate(Advanceable& work) {
  TERN_ASSERT(work.linked());
  for (Advancing* turns = advancing_list_; turns; turns = turns->outer) {
    if (turns->next == &work) turns->next = active_.next(&work);
    if (turns->now == &work) turns->now = nullptr;
  }
  IntrusiveList<Advanceable>::remove(&work);
}

// A last turn for work that was put off: a call from outside of poll (see `polling`) means that this rank will sleep.
bool Rounds::arm_all(Driving::Armed whom) {
  TERN_ASSERT(driving_.armed_for == Driving::Armed::nobody && armed_ == 0);
  if (advance_all() != 0) return false;
  for (Pollable* pollable : pollables_) {
    if (pollable->arm()) {
      ++armed_;
      TERN_DEBUG_ASSERT(armed_ <= pollables_.size());
    } else {
      disarm_all();
      return false;
    }
  }
  driving_.armed_for = whom;
  TERN_DEBUG_ASSERT(whom != Driving::Armed::nobody && armed_ == pollables_.size());
  return true;
}

void Rounds::disarm_all() {
  TERN_ASSERT(armed_ <= pollables_.size());
  for (size_t i = 0; i < armed_; ++i) pollables_[i]->disarm();
  armed_ = 0;
  driving_.armed_for = Driving::Armed::nobody;
}

bool Rounds::arriving() const {
  return std::any_of(pollables_.begin(), pollables_.end(),
                     [](const Pollable* pollable) { return pollable->arriving(); });
}

int Rounds::ranks_asleep() const {
  int most = 0;
  for (const Pollable* pollable : pollables_) most = std::max(most, pollable->ranks_asleep());
  return most;
}

uint64_t Rounds::pollable_deadline_ns() const {
  uint64_t earliest = ~uint64_t{0};
  for (const Pollable* pollable : pollables_) earliest = std::min(earliest, pollable->next_deadline_ns());
  return earliest;
}

}  // namespace tern
