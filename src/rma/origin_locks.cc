#include "rma/origin_locks.h"

#include "base/assert.h"

namespace tern::rma {

void OriginLocks::set_design(std::unique_ptr<LockDesign> design) {
  TERN_ASSERT(!design_);
  design_ = std::move(design);
  context_.environment.word_poller().add(*design_);
}

void OriginLocks::end_design() {
  if (!design_) return;
  context_.environment.word_poller().remove(*design_);
  design_.reset();
}

LockMode OriginLocks::begin(Target& target) {
  TERN_ASSERT(target.lock.state == LockState::wanted);
  ++context_.counters().rma_locks;
  target.lock.state = LockState::asked;
  target.lock.counts = true;
  const bool has_others = context_.environment.add_lock();
  return target.lock.exclusive ? LockMode::exclusive : has_others ? LockMode::joining : LockMode::shared;
}

void OriginLocks::ask(Target& target) {
  TERN_DEBUG_ASSERT(by_words() && target.lock.state == LockState::wanted);
  design_->ask(target.rank, begin(target));
  if (target.lock.state == LockState::asked) ++context_.counters().rma_lock_waits;
  wake();
}

void OriginLocks::lose(int rank, const Error& error) {
  if (!design_) return;
  design_->lost(rank, error);
  wake();
}

}  // namespace tern::rma
