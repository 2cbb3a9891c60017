// The direct route: operations on memory that this rank can reach itself, its own, and that of ranks of its node in
// windows that lie in shared memory. Loads and stores; nothing is left to finish.
//
// takes: only what the epoch allows now, and what would not pass operations that are still on their way by message.
// Thread rule: under the rank's lock.
#pragma once

#include "rma/apply.h"
#include "rma/origin_epoch.h"
#include "rma/target.h"

namespace tern::rma {

class DirectRoute {
 public:
  DirectRoute(WindowContext& context, const Apply& apply, const OriginEpoch& epoch)
      : context_(context), apply_(apply), epoch_(epoch) {}

  bool takes(const Target& target) const {
    return target.routes.has(Route::direct) && epoch_.is_open_to(target) && !target.flight.unconfirmed &&
           target.flight.pending == 0 && !target.out.has_records();
  }
  /// It is over when this returns.
  void begin(const Operation& operation, const Target& target);

 private:
  WindowContext& context_;
  const Apply& apply_;
  const OriginEpoch& epoch_;
};

}  // namespace tern::rma
