// The route of records: an operation is written into the batch for its target; a batch leaves when it is full, when a
// request-based operation is in it, or when the program synchronises. The target carries records out, one after the
// other, and answers (exposure.h).
//
//   origin                                       target
//     put, get, ... : records in a batch
//     flush, unlock, full ... : batch ---------> carries the records out, one after the other
//       long data follow      : data  ---------> straight into the window
//                             <--- result, answers    results, and the confirmation if one was asked for
//
// What an epoch does not allow yet (the lock is not there, the target has not posted) stays with the origin; a batch
// that is all of the epoch so far may travel with the request for the lock, and waits at the target.
//
// takes: everything. Units: bytes. Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include <span>

#include "rma/memory_map.h"
#include "rma/operation.h"
#include "rma/origin_epoch.h"
#include "rma/origin_locks.h"
#include "rma/results.h"

namespace tern::rma {

class CellRoute;

class RecordRoute {
 public:
  RecordRoute(WindowContext& context, const MemoryMap& memory, const OriginEpoch& epoch, OriginLocks& locks,
              Results& results, CellRoute& cell)
      : context_(context), memory_(memory), epoch_(epoch), locks_(locks), results_(results), cell_(cell) {}

  /// `request`: null, or that of the operation, which gets the parts that are begun here.
  void begin(const Operation& operation, Target& target, WindowRequest* request);
  /// Asks for the confirmation of what was begun, unless that is on its way.
  void conclude(Target& target);
  /// Asks for a confirmation: everything that goes to the target before this is over when the answer is here.
  void ask_confirmation(Target& target);
  /// The number of one that the caller asks for.
  uint32_t begin_confirmation(Target& target);

  /// Sends what may leave; `everything`: the parcel that is being filled, too.
  void pump(Target& target, bool everything);
  /// An operation without records takes its turn; false: it may leave now, and the caller lets it.
  bool hold(Target& target, HeldOperation& operation);
  /// The request for the lock alone.
  void send_lock(Target& target);
  /// What the target has answered.
  void take_answers(Target& about, std::span<const std::byte> records);
  /// Nothing of what was begun will happen.
  void drop_operations(Target& target);
  /// The error of what is dropped.
  Error why_dropped(const Target& target) const;

 private:
  void put_piece(const Operation& operation, Target& target, wire::WindowOperationBody& body, uint16_t slot,
                 WindowRequest* request);
  uint16_t name_type(Target& target, Datatype& type);
  uint32_t await_result(const Operation& operation, Target& target, size_t offset, size_t bytes,
                        WindowRequest* request);
  bool may_leave(const Target& target) const;
  void pump_first(Target& target);
  void send_with_lock(Target& target);
  void send_open(Target& target);
  void send(Target& target, const Parcel& parcel);
  void post_records(Target& target, const Parcel& parcel);
  void drop_parcels(Target& target);
  void take_result(Target& about, uint32_t token, std::span<const std::byte> bytes);
  void take_failure(Target& about, const wire::WindowRecord& head, std::span<const std::byte> text);

  WindowContext& context_;
  const MemoryMap& memory_;
  const OriginEpoch& epoch_;
  OriginLocks& locks_;
  Results& results_;
  CellRoute& cell_;
};

}  // namespace tern::rma
