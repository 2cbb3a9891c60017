#include "rma/locks/test_and_set.h"

#include "base/assert.h"

namespace tern::rma {

using WordKind = WordOperation::Kind;

void TestAndSet::add(Step step, uint64_t amount) {
  step_ = step;
  TERN_DEBUG_ASSERT(wants_ != Wants::operation);
  want(WordKind::fetch_add, target_, LockWord::kLock, amount);
  detached_ = step == Step::give_back || step == Step::leave;
}

// `expected`: the word as it should be, without an owner and readers.
void TestAndSet::take(uint64_t expected) {
  TERN_DEBUG_ASSERT(exclusive() && waiting());
  step_ = Step::take;
  want(WordKind::compare_swap, target_, LockWord::kLock, expected + mine() - (has_announced_ ? kAnnounced : 0),
       expected);
}

void TestAndSet::acquire(LockMode mode) {
  TERN_ASSERT(idle() || failed());
  state_ = State::waiting;
  mode_ = mode;
  blocker_ = kNobody;
  tries_ = 0;
  has_announced_ = failing_ = false;
  if (exclusive()) take(0);
  else add(Step::enter, kReader);
}

void TestAndSet::got_it() {
  TERN_DEBUG_ASSERT(waiting());
  has_announced_ = false;
  want_nothing(State::held);
}

void TestAndSet::in_vain(uint64_t found) {
  seen_ = found;
  blocker_ = owner(found) != 0 ? uint32_t(owner(found) - 1) : kNobody;
  want_pause();
}

void TestAndSet::on_take(uint64_t found) {
  if (found == operation_.compare) return got_it();
  if (owner(found) == 0 && readers(found) == 0) return take(found);  // free; only the announcements were others
  if (readers(found) != 0 && !has_announced_) {
    seen_ = found;
    return add(Step::announce, kAnnounced);
  }
  in_vain(found);
}

void TestAndSet::completed(uint64_t result) {
  TERN_DEBUG_ASSERT(wants_ == Wants::operation);
  wants_ = Wants::nothing;
  const bool open = open_to_reader(result);
  switch (step_) {
    case Step::take: on_take(result); break;
    case Step::announce:
      TERN_DEBUG_ASSERT(!has_announced_);
      has_announced_ = true;
      if (owner(result) == 0 && readers(result) == 0) take(result + kAnnounced);
      else in_vain(result + kAnnounced);
      break;
    case Step::enter:
      if (open) return got_it();
      seen_ = result;
      return add(Step::leave, -kReader);
    case Step::leave: in_vain(seen_); break;
    case Step::look:
      if (open && !failing_) return add(Step::enter, kReader);
      in_vain(result);
      break;
    case Step::give_back: return want_nothing(State::idle);
    case Step::withdraw: return want_nothing(State::failed);
  }
  if (failing_ && state_ == State::waiting && wants_ != Wants::operation) fail();
}

void TestAndSet::paused() {
  if (exclusive()) {
    take(announced(seen_) * kAnnounced);
  } else {
    step_ = Step::look;
    want(WordKind::read, target_, LockWord::kLock);
  }
}

void TestAndSet::release() {
  TERN_ASSERT(held());
  state_ = State::releasing;
  add(Step::give_back, exclusive() ? -mine() : -kReader);
}

// The target is: with it goes the lock.
void TestAndSet::lost() { want_nothing(state_ == State::releasing ? State::idle : State::failed); }

void TestAndSet::write_state(std::vector<uint64_t>& out) const {
  write_common(out);
  out.insert(out.end(), {uint64_t(step_) << 2 | uint64_t{has_announced_} << 1 | failing_, seen_});
}

// What is on its way comes back first; it may still bring the lock, and then this has been no failure.
void TestAndSet::fail() {
  TERN_ASSERT(waiting());
  failing_ = true;
  if (wants_ == Wants::operation) return;
  if (has_announced_) {
    state_ = State::failed;
    TERN_DEBUG_ASSERT(exclusive() && wants_ != Wants::operation);
    add(Step::withdraw, -kAnnounced);
    return;
  }
  want_nothing(State::failed);
}

}  // namespace tern::rma
