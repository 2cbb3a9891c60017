// Operations: put, get, accumulate and the like at their origin (MPI 5.0, 12.3): whether they are right, whether the
// epoch allows them, and which route each takes (routes/route.h). Owns what the origin keeps about its targets and
// epochs.
//
// The commonest calls are in one piece (short.cc). Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include "rma/apply.h"
#include "rma/origin_epoch.h"
#include "rma/origin_locks.h"
#include "rma/routes/adapter.h"
#include "rma/routes/cell.h"
#include "rma/routes/direct.h"
#include "rma/routes/record.h"
#include "rma/routes/words.h"
#include "rma/waiting.h"
#include "rma/window_gate.h"

namespace tern::rma {

class Operations {
 public:
  Operations(WindowContext& context, const MemoryMap& memory, const Apply& apply, OriginLocks& locks, Waiting& waiting,
             WindowGate& gate)
      : context_(context),
        memory_(memory),
        apply_(apply),
        locks_(locks),
        waiting_(waiting),
        gate_(gate),
        cell_(context),
        records_(context, memory, epoch_, locks, results_, cell_),
        adapter_(context, memory, locks, records_, waiting),
        words_(context, memory, records_),
        direct_(context, apply, epoch_) {}
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;

  /// `request`: null, or where the request of a request form goes.
  Error begin(const Operation& operation, Request** request);

  // --- Without the rank's lock: they only read (window.h).
  bool move_shortly(const Operation& operation) const;
  bool is_flushed(int rank) const;
  /// What those read will change by calls only.
  bool may_be_read() const;
  WindowGate& gate() { return gate_; }

  // --- For the epochs.
  OriginEpoch& epoch() { return epoch_; }
  TargetTable& targets() { return targets_; }
  Target& target(int rank);
  /// Null: nothing is kept about that rank (yet). Takes any number.
  Target* known(int rank) const {
    return size_t(unsigned(rank)) < targets_.size() ? targets_[size_t(rank)].get() : nullptr;
  }
  /// The target whose lock is held; null: find out.
  Target* held(int rank) const {
    Target* target = known(rank);
    return target && target->lock.state == LockState::held ? target : nullptr;
  }
  /// Whether the epoch allows an operation to the target.
  Error allow(Target& target);
  /// Waits for its MPI_Win_post, if that comes as a count in memory.
  void await_post(Target& target);
  RecordRoute& records() { return records_; }
  AdapterRoute& adapter() { return adapter_; }
  CellRoute& cell() { return cell_; }
  Results& results() { return results_; }

 private:
  Target* reached_before(int rank) const;
  bool perform_short(const Operation& operation);
  bool record_short(const Operation& operation);
  void write_short(const Operation& operation, Target& target, int64_t start, size_t bytes);
  void count(const Operation& operation);
  void send_out(const Operation& operation, Target& target, bool by_words, WindowRequest* request);
  Error not_in_epoch(int rank) const;

  WindowContext& context_;
  const MemoryMap& memory_;
  const Apply& apply_;
  OriginLocks& locks_;
  Waiting& waiting_;
  WindowGate& gate_;
  TargetTable targets_;
  OriginEpoch epoch_;
  Results results_;
  CellRoute cell_;
  RecordRoute records_;
  AdapterRoute adapter_;
  WordRoute words_;
  DirectRoute direct_;
};

}  // namespace tern::rma
