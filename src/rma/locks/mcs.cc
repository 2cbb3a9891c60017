#include "rma/locks/mcs.h"

#include "base/assert.h"

namespace tern::rma {

using Kind = WordOperation::Kind;

void McsLock::acquire(bool exclusive) {
  TERN_ASSERT(idle() || failed());
  state_ = State::waiting;
  exclusive_ = exclusive;
  blocker_ = kNobody;
  tries_ = 0;
  release_wanted_ = failing_ = false;
  step_ = Step::clear_next;
  want(Kind::write, me_, LockWord::next_of(target_), 0);
}

void McsLock::enqueue(uint64_t guess) {
  step_ = Step::queue;
  if (native_swap_) want(Kind::swap, target_, LockWord::kLock, mine());
  else want(Kind::compare_swap, target_, LockWord::kLock, mine(), guess);
}

void McsLock::on_previous(uint64_t previous) {
  if (previous == kBroken) {
    failing_ = true;
    return pass_on(kGoBroken);
  }
  if (previous == 0 || previous == kReadersOnly) return on_turn(previous == kReadersOnly);
  blocker_ = uint32_t(previous - 1);
  step_ = Step::link;
  want(Kind::write, blocker_, LockWord::next_of(target_), mine());
}

// `readers`: there may be some.
void McsLock::on_turn(bool readers) {
  blocker_ = kNobody;
  if (!exclusive_) {
    step_ = Step::count;
    want(Kind::fetch_add, target_, LockWord::kReaders, 1);
  } else if (readers) {
    look_at_readers();
  } else {
    hold();
  }
}

void McsLock::hold() {
  failing_ = false;
  blocker_ = kNobody;
  want_nothing(State::held);
}

void McsLock::look_at_readers() {
  step_ = Step::readers;
  want(Kind::read, target_, LockWord::kReaders);
}

void McsLock::pass_on(Flag flag) {
  handing_ = flag;
  step_ = Step::peek;
  want(Kind::read, me_, LockWord::next_of(target_));
}

void McsLock::hand_to(uint64_t next) {
  step_ = Step::hand_on;
  want(Kind::write, uint32_t(next - 1), LockWord::flag_of(target_), handing_);
}

void McsLock::passed_on() {
  if (failing_) return want_nothing(State::failed);
  if (exclusive_) return want_nothing(State::idle);
  if (!release_wanted_) {
    wants_ = Wants::nothing;  // a reader: still held
    return;
  }
  step_ = Step::uncount;
  want(Kind::fetch_add, target_, LockWord::kReaders, uint64_t(-1));
}

void McsLock::completed(uint64_t result) {
  wants_ = Wants::nothing;
  switch (step_) {
    case Step::clear_next: step_ = Step::clear_flag; return want(Kind::write, me_, LockWord::flag_of(target_), kWait);
    case Step::clear_flag: return enqueue(0);
    case Step::queue:
      if (!native_swap_ && result != operation_.compare) {
        ++tries_;
        return enqueue(result);
      }
      return on_previous(result);
    case Step::link:
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
      return want(Kind::compare_swap, target_, LockWord::kLock,
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
  if (step_ == Step::behind) return hand_to(value);
  if (value == kGoBroken) {
    failing_ = true;
    return pass_on(kGoBroken);
  }
  on_turn(value == kGoReaders);
}

void McsLock::paused() { look_at_readers(); }

void McsLock::release() {
  TERN_ASSERT(held());
  state_ = State::releasing;
  if (exclusive_) return pass_on(kGo);
  release_wanted_ = true;
  if (wants_ == Wants::nothing) passed_on();
}

// The one behind has died, perhaps, before it could say who it is. Whoever is behind that one learns of its death.
void McsLock::abandon() {
  if (looks_behind()) passed_on();
}

void McsLock::lost() {
  wants_ = Wants::nothing;
  if (operation_.rank == target_) return want_nothing(state_ == State::releasing ? State::idle : State::failed);
  if (step_ == Step::hand_on) return passed_on();
  failing_ = true;  // the one before
  pass_on(kGoBroken);
}

void McsLock::write_state(std::vector<uint64_t>& out) const {
  write_common(out);
  out.push_back(uint64_t(step_) << 8 | uint64_t(handing_) << 4 | uint64_t{release_wanted_} << 1 | failing_);
}

// What is on its way comes back first.
void McsLock::fail() {
  TERN_ASSERT(waiting());
  if (failing_) return;
  failing_ = true;
  if (wants_ != Wants::operation) pass_on(kGoBroken);
}

}  // namespace tern::rma
