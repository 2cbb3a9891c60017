// The adapter's route: puts and gets by the path's RemoteMemory. An adapter or this rank's processor moves the bytes,
// and the target's processor is not needed. What the epoch does not allow yet waits in the outbox; a transfer that
// fails goes as a record instead.
//
// takes: contiguous elements of a target whose memory the path can put or get. Without an adapter that moves bytes by
// itself, few of them go by message: that is quicker while the target is inside MPI, and more of them leave together.
// Of more bytes both ranks can copy a part at the same time: the path knows which way was faster. finish: a transfer is
// over at the target when it is done, so the end of an epoch waits for transfers first, and for what went by message
// (also instead of a transfer) after that. Thread rule: under the rank's lock.
#pragma once

#include "rma/memory_map.h"
#include "rma/origin_locks.h"
#include "rma/routes/record.h"
#include "rma/waiting.h"

namespace tern::rma {

struct RemoteTransfer;

class AdapterRoute {
 public:
  AdapterRoute(WindowContext& context, const MemoryMap& memory, const OriginLocks& locks, RecordRoute& records,
               Waiting& waiting)
      : context_(context), memory_(memory), locks_(locks), records_(records), waiting_(waiting) {}

  bool takes(Target& target, const Operation& operation);
  void begin(const Operation& operation, Target& target, WindowRequest* request);
  /// Waits for what RemoteMemory does, atomics included. Afterwards what is left of it, if anything, are records.
  void finish(Target& target) {
    if (target.flight.transfers != 0) waiting_.until([&] { return target.flight.transfers == 0; });
  }

 private:
  friend struct RemoteTransfer;
  void find_keys(Target& target);
  void leave(RemoteTransfer& transfer);
  void over(RemoteTransfer& transfer, Error error);

  WindowContext& context_;
  const MemoryMap& memory_;
  const OriginLocks& locks_;
  RecordRoute& records_;
  Waiting& waiting_;
};

}  // namespace tern::rma
