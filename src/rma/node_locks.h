// NodeLocks: the locks of a window all of whose ranks share one node, in their shared memory. Tickets are served in the
// order in which they were taken; readers that follow one another hold the lock together.
//
//   ask        ticket = next++
//   held       serving == ticket, then   a reader: readers++, serving++   a writer: readers == 0
//   release    a reader: readers--       a writer: serving++
//   join       readers++ unless it is 0 (lock_mode.h); a ticket that was taken before is passed on at its turn
//
// So a writer waits only for those that asked before it, and nobody but those that join passes it. One atomic operation
// takes a free lock as a writer, one store gives it back. A rank that waits for long sleeps. It sets its bit before;
// the rank that changes the words sends a message to those whose bits are set.
//
// When a rank is lost, each rank that waits gets an error: the lost one may have the lock, or be the next. The ticket
// stays, so nobody gets the lock any more.
// Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "rma/lock_design.h"
#include "rma/shared_part.h"

namespace tern::rma {

class NodeLocks final : public LockDesign {
 public:
  /// `me`: this rank's place. `wake`: sends a message to a rank of the window, that it looks again.
  NodeLocks(SharedPart& memory, int me, std::function<void(int rank)> wake, Told told)
      : memory_(memory), me_(me), wake_(std::move(wake)), told_(std::move(told)) {}
  void ask(int rank, LockMode mode) override;
  bool take_free(int rank) override;
  void release(int rank) override;
  void lost(int rank, const Error& error) override;
  bool quiet() const override { return waiting_.empty(); }

  int poll() override;
  const PollHints& hints() const override { return hints_; }
  bool arm() override;

 private:
  struct Waiting {
    int rank;
    LockMode mode;
    uint32_t ticket;
    bool joined = false;  ///< holds the lock, or held it: the ticket is to be passed on
  };
  Control& control(int rank) const { return memory_.control(memory_.place_of(rank)); }
  bool holds(int rank) const {
    return std::any_of(held_.begin(), held_.end(), [rank](const auto& one) { return one.first == rank; });
  }
  static bool has_turn(const Control& control, const Waiting& one);
  static bool may_join(const Control& control, const Waiting& one);
  bool join(int rank);
  bool take(const Waiting& one);
  void pass_on(Control& control);
  void wake_waiting(Control& control);

  SharedPart& memory_;
  const int me_;
  const std::function<void(int rank)> wake_;
  const Told told_;
  std::vector<Waiting> waiting_;
  int lost_class_ = 0;  ///< of the error that told of a loss; 0: none
  std::string lost_text_;
  std::vector<std::pair<int, bool>> held_;  ///< rank, exclusive
  PollHints hints_{.dormant = true};
};

}  // namespace tern::rma
