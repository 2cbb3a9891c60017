// LockDesign: how an origin gets the lock of a target without the target's doing: by words that the origins themselves
// change (Jiang et al. 2004, section 5). A window without one sends messages: the target keeps the queue
// (lock_queue.h), and the request for the lock travels with the operations (routes/record.h); that is what a polling or
// an event-driven thread of the target serves (section 4; progress/event_handler.h).
//
//   NodeLocks       tickets in memory that the node shares (node_locks.h)
//   NodeWordLocks   test-and-set, MCS queue in such memory (node_word_locks.h, locks/)
//   RemoteWordLocks the same over a path's atomics (remote_word_locks.h)
//
// Thread rule: under the rank's lock.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "fabric/pollable.h"
#include "rma/lock_mode.h"

namespace tern::rma {

/// What TERN_RMA_LOCK and the info key tern_rma_lock say.
enum class LockChoice : int32_t { automatic, polling_thread, event_thread, test_and_set, mcs };
/// False: there is no such design.
bool parse_lock_choice(std::string_view name, LockChoice& choice);
const char* name_of(LockChoice choice);
/// "auto, polling-thread, ..."
std::string lock_choice_names();

class LockDesign : public Pollable {
 public:
  /// Called once for each `ask`, from there or from a poll: the lock of that rank of the window is held (no error), or
  /// cannot be had any more.
  using Told = std::function<void(int rank, Error error)>;

  /// Wants the lock of the rank, which it neither holds nor wants; returns at once.
  virtual void ask(int rank, LockMode mode) = 0;
  /// Takes the lock of such a rank for writing if it is free; `told` is not called. False: nothing has happened.
  virtual bool take_free(int) { return false; }
  /// What was put under the lock has arrived.
  virtual void release(int rank) = 0;
  /// A rank of the window has been lost.
  virtual void lost(int rank, const Error& error) = 0;
  /// Nothing is left to be done for locks that were given back.
  virtual bool quiet() const = 0;
  /// Operations are on their way that will be told of here; it must live until then. Without polls none are added.
  virtual bool under_way() const { return false; }
};

}  // namespace tern::rma
