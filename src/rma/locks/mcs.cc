#include "rma/locks/mcs.h"

#include "base/assert.h"

namespace tern::rma {

using WordKind = WordOperation::Kind;

void McsLock::acquire(LockMode mode) {
  TERN_ASSERT(idle() || failed());
  state_ = State::waiting;
  mode_ = mode;
  blocker_ = kNobody;
  tries_ = 0;
  release_wanted_ = failing_ = queued_ = false;
  if (exclusive() && handed_to_ != 0 && in_a_row_ < kMaxInARow) {
    step_ = Step::take_back;
    return want(WordKind::compare_swap, uint32_t(handed_to_ - 1), LockWord::flag_of(target_), kWait, kGo);
  }
  begin();
}

void McsLock::begin() {
  TERN_DEBUG_ASSERT(waiting() && !taken_back_);
  handed_to_ = 0;
  in_a_row_ = 0;
  step_ = Step::clear_next;
  want(WordKind::write, me_, LockWord::next_of(target_), 0);
}

void McsLock::enqueue(uint64_t guess) {
  step_ = Step::queue;
  TERN_DEBUG_ASSERT(waiting() && !queued_);
  if (native_swap_ && mode_ != LockMode::joining) want(WordKind::swap, target_, LockWord::kLock, mine());
  else want(WordKind::compare_swap, target_, LockWord::kLock, mine(), guess);
}

void McsLock::on_previous(uint64_t previous) {
  if (previous == kBroken) {
    failing_ = true;
    return pass_on(kGoBroken);
  }
  if (previous == 0 || previous == kReadersOnly) return on_turn(previous == kReadersOnly);
  blocker_ = uint32_t(previous - 1);
  TERN_DEBUG_ASSERT(queued_ && blocker_ != me_);
  step_ = Step::link;
  want(WordKind::write, blocker_, LockWord::next_of(target_), mine());
}

void McsLock::look_at(Step step, uint32_t word) {
  step_ = step;
  want(WordKind::read, target_, word);
}

// Who joins. While there are readers no writer holds the lock, and none gets it before they are 0.
void McsLock::on_readers(uint64_t readers) {
  if (readers == 0) return look_at(Step::look_queue, LockWord::kLock);
  TERN_DEBUG_ASSERT(mode_ == LockMode::joining && waiting());
  step_ = Step::join;
  want(WordKind::compare_swap, target_, LockWord::kReaders, readers + 1, readers);
}

void McsLock::on_queue(uint64_t last) {
  if (failing_ || last == kBroken) return want_nothing(State::failed);
  if (last == 0 || last == kReadersOnly) return enqueue(last);
  want_pause();
}

// `readers`: there may be some.
void McsLock::on_turn(bool readers) {
  blocker_ = kNobody;
  TERN_DEBUG_ASSERT(waiting());
  if (!exclusive()) {
    step_ = Step::count;
    want(WordKind::fetch_add, target_, LockWord::kReaders, 1);
  } else if (readers) {
    look_at(Step::readers, LockWord::kReaders);
  } else {
    hold();
  }
}

void McsLock::hold() {
  TERN_DEBUG_ASSERT(waiting());
  failing_ = false;
  blocker_ = kNobody;
  want_nothing(State::held);
}

void McsLock::pass_on(Flag flag) {
  handing_ = flag;
  TERN_DEBUG_ASSERT(flag != kWait && flag != kTaken);
  step_ = Step::peek;
  want(WordKind::read, me_, LockWord::next_of(target_));
}

void McsLock::hand_to(uint64_t next) {
  step_ = Step::hand_on;
  TERN_DEBUG_ASSERT(next != 0 && next != mine() && handing_ != kWait);
  if (takes_back_ && handing_ == kGo) handed_to_ = next;
  want(WordKind::write, uint32_t(next - 1), LockWord::flag_of(target_), handing_);
}

void McsLock::passed_on() {
  if (failing_) return want_nothing(State::failed);
  if (exclusive()) return want_nothing(State::idle);
  if (!release_wanted_) {
    wants_ = Wants::nothing;  // a reader: still held
    return;
  }
  step_ = Step::uncount;
  TERN_DEBUG_ASSERT(!exclusive() && release_wanted_);
  want(WordKind::fetch_add, target_, LockWord::kReaders, uint64_t(-1));
}

void McsLock::completed(uint64_t result) {
  wants_ = Wants::nothing;
  switch (step_) {
    case Step::take_back:
      if (result == kGo) {
        taken_back_ = true;
        ++in_a_row_;
        return hold();
      }
      if (failing_) return want_nothing(State::failed);
      return begin();
    case Step::clear_next:
      step_ = Step::clear_flag;
      return want(WordKind::write, me_, LockWord::flag_of(target_), kWait);
    case Step::clear_flag:
      if (mode_ == LockMode::joining) return look_at(Step::look, LockWord::kReaders);
      return enqueue(0);
    case Step::look: return on_readers(result);
    case Step::join:
      if (result == operation_.compare) return hold();
      return on_readers(result);
    case Step::look_queue: return on_queue(result);
    case Step::queue:
      if (operation_.kind == WordKind::compare_swap && result != operation_.compare) {
        if (mode_ == LockMode::joining) return on_queue(result);
        ++tries_;
        return enqueue(result);
      }
      queued_ = true;
      return on_previous(result);
    case Step::link:
      step_ = Step::turn;
      want_watch(LockWord::flag_of(target_));
      if (failing_) pass_on(kGoBroken);
      return;
    case Step::claim:
      if (result == kGo) return on_turn(false);
      step_ = Step::turn;
      want_watch(LockWord::flag_of(target_));
      if (failing_) pass_on(kGoBroken);
      return;
    case Step::readers:
      if (result == 0) return hold();
      if (failing_) return pass_on(kGoBroken);
      return want_pause();
    case Step::count: hold(); return pass_on(kGoReaders);
    case Step::peek:
      if (result != 0) return hand_to(result);
      step_ = Step::unlink;
      return want(WordKind::compare_swap, target_, LockWord::kLock,
                  handing_ == kGo          ? 0
                  : handing_ == kGoReaders ? kReadersOnly
                                           : kBroken,
                  mine());
    case Step::unlink:
      if (result == mine()) return passed_on();
      step_ = Step::behind;
      return want_watch(LockWord::next_of(target_));
    case Step::hand_on: return passed_on();
    case Step::uncount: return want_nothing(State::idle);
    case Step::turn:
    case Step::behind: break;
  }
  TERN_ASSERT(!"a step without an operation");
}

void McsLock::watched(uint64_t value) {
  if (value == 0) return;
  TERN_DEBUG_ASSERT(wants_ == Wants::watch && queued_);
  if (step_ == Step::behind) return hand_to(value);
  if (value == kGoBroken) {
    failing_ = true;
    return pass_on(kGoBroken);
  }
  if (takes_back_ && value == kGo) {
    step_ = Step::claim;
    return want(WordKind::compare_swap, me_, LockWord::flag_of(target_), kTaken, kGo);
  }
  on_turn(value == kGoReaders);
}

void McsLock::paused() { look_at(mode_ == LockMode::joining ? Step::look : Step::readers, LockWord::kReaders); }

void McsLock::release() {
  TERN_ASSERT(held());
  state_ = State::releasing;
  if (taken_back_) {
    taken_back_ = false;
    TERN_DEBUG_ASSERT(handed_to_ != 0 && exclusive());
    handing_ = kGo;
    return hand_to(handed_to_);
  }
  if (exclusive()) return pass_on(kGo);
  release_wanted_ = true;
  TERN_DEBUG_ASSERT(!exclusive());
  if (wants_ == Wants::nothing) passed_on();
}

// The one behind has died, perhaps, before it could say who it is. The rank behind that one learns of its death.
void McsLock::abandon() {
  if (looks_behind()) passed_on();
}

void McsLock::lost() {
  TERN_DEBUG_ASSERT(wants_ == Wants::operation);
  wants_ = Wants::nothing;
  if (step_ == Step::take_back) return begin();
  if (operation_.rank == target_) return want_nothing(state_ == State::releasing ? State::idle : State::failed);
  if (step_ == Step::hand_on) return passed_on();
  failing_ = true;  // the one before
  pass_on(kGoBroken);
}

void McsLock::write_state(std::vector<uint64_t>& out) const {
  write_common(out);
  out.push_back(handed_to_ << 16 | uint64_t{in_a_row_} << 8 | taken_back_);
  out.push_back(uint64_t(step_) << 12 | uint64_t(handing_) << 8 | uint64_t{release_wanted_} << 2 |
                uint64_t{queued_} << 1 | failing_);
}

// What is on its way comes back first.
void McsLock::fail() {
  TERN_ASSERT(waiting());
  if (failing_) return;
  failing_ = true;
  if (wants_ == Wants::operation) return;
  if (queued_) pass_on(kGoBroken);
  else want_nothing(State::failed);
}

}  // namespace tern::rma
