// The lock of a window at its target, for origins that ask by message: shared or exclusive, in the order of asking, so
// that a writer waits only for those before it, and readers that come later wait for the writer. Readers that join
// (lock_mode.h) wait for nobody while others read.
// Thread rule: under the target's lock.
#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <vector>

#include "base/assert.h"
#include "rma/lock_mode.h"

namespace tern::rma {

class LockQueue {
 public:
  enum class Answer { granted, waits, refused };

  /// `refused`: it has or wants the lock already.
  Answer acquire(int origin, LockMode mode) {
    if (holds(origin) || waits(origin)) return Answer::refused;
    if (joins(mode) || (waiting_.empty() && admits(mode))) {
      admit(origin, mode);
      return Answer::granted;
    }
    waiting_.push_back({origin, mode});
    TERN_DEBUG_ASSERT(!holders_.empty());
    return Answer::waits;
  }
  /// Appends those that have the lock now. False: this one did not have it.
  bool release(int origin, std::vector<int>& granted) {
    if (holders_.erase(origin) == 0) return false;
    TERN_DEBUG_ASSERT(holders_.empty() || !exclusive_);
    if (holders_.empty()) exclusive_ = false;
    const auto grant = [&](const Waiting& one) {
      granted.push_back(one.origin);
      admit(one.origin, one.mode);
    };
    for (; !waiting_.empty() && admits(waiting_.front().mode); waiting_.pop_front()) grant(waiting_.front());
    std::erase_if(waiting_, [&](const Waiting& one) {
      if (!joins(one.mode)) return false;
      grant(one);
      return true;
    });
    return true;
  }
  /// Takes all that wait out of the queue.
  std::vector<int> dismiss() {
    std::vector<int> all;
    for (const Waiting& one : waiting_) all.push_back(one.origin);
    waiting_.clear();
    return all;
  }
  /// One that waits no longer.
  void forget(int origin) {
    std::erase_if(waiting_, [&](const Waiting& one) { return one.origin == origin; });
  }
  bool holds(int origin) const { return holders_.contains(origin); }
  bool idle() const { return holders_.empty() && waiting_.empty(); }
  size_t queued() const { return waiting_.size(); }
  const std::set<int>& holders() const { return holders_; }

 private:
  struct Waiting {
    int origin;
    LockMode mode;
  };
  bool waits(int origin) const {
    for (const Waiting& one : waiting_) {
      if (one.origin == origin) return true;
    }
    return false;
  }
  bool admits(LockMode mode) const { return holders_.empty() || (mode != LockMode::exclusive && !exclusive_); }
  bool joins(LockMode mode) const { return mode == LockMode::joining && !holders_.empty() && !exclusive_; }
  void admit(int origin, LockMode mode) {
    TERN_DEBUG_ASSERT(admits(mode) || joins(mode));
    holders_.insert(origin);
    exclusive_ = mode == LockMode::exclusive;
    TERN_DEBUG_ASSERT(!exclusive_ || holders_.size() == 1);
  }

  std::set<int> holders_;
  bool exclusive_ = false;  ///< of the one holder
  std::deque<Waiting> waiting_;
};

}  // namespace tern::rma
