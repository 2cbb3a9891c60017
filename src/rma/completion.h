// Completion: the end of what an origin has begun on its targets: the waits of flush, unlock, fence and complete (MPI
// 5.0, 12.5). Thread rule: under the rank's lock, which waiting gives up.
#pragma once

#include "rma/routes/adapter.h"
#include "rma/routes/record.h"
#include "rma/waiting.h"

namespace tern::rma {

class Completion {
 public:
  Completion(WindowContext& context, TargetTable& targets, RecordRoute& records, AdapterRoute& adapter,
             Waiting& waiting)
      : context_(context), targets_(targets), records_(records), adapter_(adapter), waiting_(waiting) {}

  /// Everything begun on the target is over there. The error is that of the operations.
  Error finish(Target& target);
  /// Of all targets.
  Error finish_all();
  /// Their buffers may be used again.
  Error finish_locally(Target& target);
  Error finish_all_locally();
  /// Nothing is left to RemoteMemory, for all targets at the same time.
  void finish_transfers();
  /// Nothing of that target is left to RemoteMemory.
  void finish_transfers(Target& target) { adapter_.finish(target); }
  /// Of the operations that the synchronisation has ended; they are told once.
  Error take_error(Target& target);
  Error take_errors();

 private:
  WindowContext& context_;
  TargetTable& targets_;
  RecordRoute& records_;
  AdapterRoute& adapter_;
  Waiting& waiting_;
};

}  // namespace tern::rma
