// OriginLocks: the locks of a window's targets, as this rank gets them: by a design in which the origins change words
// (lock_design.h), or by records that the target answers. Thread rule: under the rank's lock.
#pragma once

#include <memory>

#include "base/assert.h"
#include "rma/context.h"
#include "rma/lock_design.h"
#include "rma/target.h"

namespace tern::rma {

class OriginLocks {
 public:
  explicit OriginLocks(WindowContext& context) : context_(context) {}

  /// By words. Null afterwards: by records.
  void set_design(std::unique_ptr<LockDesign> design);
  /// Nobody waits for its words any more.
  void end_design();
  LockDesign* design() const { return design_.get(); }
  bool by_words() const { return design_ != nullptr; }

  /// The request for the lock of the target, which is wanted, is written now: how it is wanted.
  LockMode begin(Target& target);
  /// Of a design: asks for it; the design tells of the answer.
  void ask(Target& target);
  /// Of a design: takes the lock for writing if it is free. False: nothing has happened.
  bool take_free(Target& target) {
    TERN_ASSERT(target.lock.state == LockState::none);
    if (!design_->take_free(target.rank)) return false;
    ++context_.counters().rma_locks;
    context_.environment.add_lock();
    target.lock.unchecked = false;
    target.lock.exclusive = target.lock.counts = true;
    target.lock.state = LockState::held;
    return true;
  }
  /// The lock was given back, or is not had. Afterwards it is none.
  void end(Target& target) {
    target.lock.state = LockState::none;
    if (target.lock.counts) context_.environment.remove_lock();
    target.lock.counts = false;
  }
  /// Of a design: gives the lock back.
  void release(Target& target) {
    TERN_ASSERT(target.lock.state == LockState::held && !target.lock.unchecked);
    design_->release(target.rank);
    wake();
  }
  void lose(int rank, const Error& error);

 private:
  void wake() {
    if (!design_->hints().dormant) context_.environment.word_poller().wake();
  }

  WindowContext& context_;
  std::unique_ptr<LockDesign> design_;
};

}  // namespace tern::rma
