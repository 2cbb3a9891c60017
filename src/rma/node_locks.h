// NodeLocks: the locks of a window all of whose ranks share one node, in their shared memory. Tickets are served in the
// order in which they were taken; readers that follow one another hold the lock together.
//
//   ask        ticket = next++
//   held       serving == ticket, then   a reader: readers++, serving++   a writer: readers == 0
//   release    a reader: readers--       a writer: serving++
//
// So a writer waits only for those that asked before it, and nobody passes it. One atomic operation takes a free lock
// as a writer, one store gives it back. Who waits for long sleeps: it leaves a bit, and whoever changes the words sends
// a message to those whose bits are set.
// Thread rule: under the rank's lock.
#pragma once

#include <functional>

#include "rma/lock_design.h"
#include "rma/shared_part.h"

namespace tern::rma {

class NodeLocks final : public LockDesign {
 public:
  /// `wake`: sends a message to a rank of the window, that it looks again. `me`: this rank's place.
  NodeLocks(SharedPart& memory, int me, std::function<void(int rank)> wake)
      : memory_(memory), me_(me), wake_(std::move(wake)) {}
  void ask(Target& target) override;
  bool held(Target& target) override;
  void release(Target& target) override;

 private:
  Control& control(const Target& target) const;
  void wake_waiting(Control& control);

  SharedPart& memory_;
  const int me_;
  const std::function<void(int rank)> wake_;
};

}  // namespace tern::rma
