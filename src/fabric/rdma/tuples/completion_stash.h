// CompletionStash: the completions of tuple queues, in order: the adapter's queue of them, and those that were taken
// from it and are not handled yet. They are taken before they are handled where a queue pair or receive queue ends:
// what has happened until then must be known at once, and what is over must not be found later.
//
// Owns the adapter's queue; queue pairs and receive queues that complete into it go first. Thread rule: as Path.
#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>

#include "fabric/rdma/verbs/hca.h"

namespace tern::rdma {

class CompletionStash {
 public:
  Error start(Hca& hca, const CompletionQueueOptions& options) { return hca.make_completion_queue(options, queue_); }
  CompletionQueue* queue() const { return queue_.get(); }

  bool empty() const { return taken_.empty(); }
  /// Takes all that the adapter has.
  void fill() {
    Completion batch[16];
    while (size_t count = queue_->poll(batch, std::size(batch))) {
      taken_.insert(taken_.end(), batch, batch + count);
      if (count < std::size(batch)) return;
    }
  }
  /// The oldest of those taken.
  Completion pop() {
    const Completion oldest = taken_.front();
    taken_.pop_front();
    return oldest;
  }
  /// Drops those for which `over(completion)` is true.
  template <typename Over>
  void erase_if(Over&& over) {
    std::erase_if(taken_, over);
  }
  /// What that request has brought, or will have brought, counts no more. Its memory may be used again.
  void forget(uint64_t id) {
    erase_if([id](const Completion& completion) { return completion.id == id; });
  }
  /// The next completion wakes. False: something is here already.
  bool arm() {
    queue_->arm(false);
    fill();
    return empty();
  }

 private:
  std::unique_ptr<CompletionQueue> queue_;
  std::deque<Completion> taken_;
};

}  // namespace tern::rdma
