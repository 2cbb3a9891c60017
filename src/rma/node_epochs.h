// NodeEpochs: post and complete (MPI 5.0, 12.5.2) between ranks that share a node, as counts in their shared memory
// (SharedPart): one cache line that moves, instead of a message.
//
//   target   post       posts(origin)[target] + 1         tells that its memory may be accessed
//   origin   complete   completions(target)[origin] + 1   tells that it has been; every store before is visible then
//
// Each count has one writer and one reader, which remembers how much of it it has used. An origin completes only after
// the target's post (or both know of it, MPI_MODE_NOCHECK), so what it sends by message in one epoch is counted before
// what it tells here in the next.
//
// A rank that waits for a count may sleep. It sets a word (Control::sleeps) and then reads the count once more; the
// rank that changes the count reads the word afterwards. So at least one of the two sees what the other has written.
// Thread rule: under the rank's lock.
#pragma once

#include <functional>
#include <vector>

#include "base/assert.h"
#include "fabric/pollable.h"
#include "rma/shared_part.h"

namespace tern::rma {

class NodeEpochs final : public Pollable {
 public:
  /// `me`: this rank's place. `wake`: sends a message to a rank of the window, that it looks again.
  NodeEpochs(SharedPart& memory, int me, std::function<void(int rank)> wake)
      : memory_(memory), me_(me), wake_(std::move(wake)), used_(memory.ranks().size()), seen_(memory.ranks().size()) {}

  // --- The target. `place`: the origin's.
  /// `told`: the origin waits for the post.
  void post(int place, bool told);
  /// Of the present exposure epoch; returns how many origins have completed since the last call.
  int take_completions();
  void end_exposure() { expected_.clear(); }

  // --- The origin. `place`: the target's.
  /// It has posted an epoch that was not used yet.
  bool is_open(int place) const {
    const uint32_t posted = memory_.posts(me_)[place].load(std::memory_order_acquire);
    return int32_t(posted - used_[size_t(place)]) > 0;
  }
  void use(int place) {
    TERN_DEBUG_ASSERT(is_open(place));
    ++used_[size_t(place)];
  }
  void complete(int place);

  /// While it lives a thread waits for a count to change, and may sleep.
  class Wait {
   public:
    explicit Wait(NodeEpochs& epochs) : epochs_(epochs) { ++epochs_.waits_; }
    ~Wait() {
      TERN_DEBUG_ASSERT(epochs_.waits_ > 0);
      --epochs_.waits_;
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    NodeEpochs& epochs_;
  };

  int poll() override { return 0; }
  const PollHints& hints() const override { return hints_; }
  /// Who waits looks at the counts once more after this.
  bool arm() override;
  void disarm() override;

 private:
  void tell(std::atomic<uint32_t>& count, int place);

  SharedPart& memory_;
  const int me_;
  const std::function<void(int rank)> wake_;
  std::vector<uint32_t> used_;  ///< of the posts of each member
  std::vector<uint32_t> seen_;  ///< of the completions of each member
  std::vector<int> expected_;   ///< origins of the exposure epoch that have not completed here
  int waits_ = 0;
  bool armed_ = false;
  const PollHints hints_{.dormant = true};
};

}  // namespace tern::rma
