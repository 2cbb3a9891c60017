// What a rank keeps about one origin of a window as its target. Made when first used.
// Thread rule: under the rank's lock.
#pragma once

#include <vector>

#include "base/assert.h"
#include "datatype/datatype.h"
#include "p2p/core/endpoint.h"
#include "rma/own_lock_share.h"
#include "wire/window.h"

namespace tern::rma {

struct Source {
  Source(int of, Endpoint& way) : rank(of), endpoint(way) {}

  const int rank;
  Endpoint& endpoint;
  std::vector<Ref<Datatype>> types;         ///< by slot
  std::vector<std::byte> held;              ///< records that wait for the lock
  bool waits = false;                       ///< for the lock
  uint32_t replying = 0;                    ///< results that are still to be read from the window
  bool unlocks = false, completes = false;  ///< once those results have left
  bool refused = false;                     ///< it cannot have the lock: nothing is done for it until it unlocks
  /// The operation whose data come as the next message; `nothing_of_it`: they are thrown away.
  enum class Expected : uint8_t { nothing, operation, nothing_of_it };
  Expected expected = Expected::nothing;
  wire::WindowRecord head{};
  wire::WindowOperationBody body{};
  std::vector<std::byte> arriving;  ///< those data, unless they go straight to the window
  OwnLockShare::Origin returns;     ///< for the lock

  void end_reply() {
    TERN_ASSERT(replying != 0);
    --replying;
  }
};

}  // namespace tern::rma
