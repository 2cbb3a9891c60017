// The lock of a window at its target, for origins that ask by message: shared or exclusive, in the order of asking, so
// that a writer waits only for those before it, and readers that come later wait for the writer.
// Thread rule: under the target's lock.
#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <vector>

namespace tern::rma {

class LockQueue {
 public:
  enum class Answer { granted, waits, refused };

  /// `refused`: it has or wants the lock already.
  Answer acquire(int origin, bool exclusive) {
    if (holds(origin) || waits(origin)) return Answer::refused;
    if (waiting_.empty() && admits(exclusive)) {
      admit(origin, exclusive);
      return Answer::granted;
    }
    waiting_.push_back({origin, exclusive});
    return Answer::waits;
  }
  /// Appends those that have the lock now. False: this one did not have it.
  bool release(int origin, std::vector<int>& granted) {
    if (holders_.erase(origin) == 0) return false;
    if (holders_.empty()) exclusive_ = false;
    while (!waiting_.empty() && admits(waiting_.front().exclusive)) {
      granted.push_back(waiting_.front().origin);
      admit(waiting_.front().origin, waiting_.front().exclusive);
      waiting_.pop_front();
    }
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

 private:
  struct Waiting {
    int origin;
    bool exclusive;
  };
  bool waits(int origin) const {
    for (const Waiting& one : waiting_) {
      if (one.origin == origin) return true;
    }
    return false;
  }
  bool admits(bool exclusive) const { return holders_.empty() || (!exclusive && !exclusive_); }
  void admit(int origin, bool exclusive) {
    holders_.insert(origin);
    exclusive_ = exclusive;
  }

  std::set<int> holders_;
  bool exclusive_ = false;  ///< of the one holder
  std::deque<Waiting> waiting_;
};

}  // namespace tern::rma
