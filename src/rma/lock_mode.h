// LockMode: how an origin wants the lock of a target.
//
// Designs serve a writer before the readers that come after it. A reader that already holds another lock must not wait
// for such a writer: while it waits, writers wait for the lock that it holds, and readers like itself behind them, for
// locks that they hold in turn. (Two origins in MPI_Win_lock_all, which asks for each target's lock when the target is
// first used, and two writers are enough.) So it joins the readers that hold the lock, past the writers that wait.
#pragma once

#include <cstdint>

namespace tern::rma {

/// Values are part of the wire format.
enum class LockMode : uint8_t {
  shared,
  exclusive,
  joining,  ///< shared, by an origin that holds, or has asked for, another lock
};

}  // namespace tern::rma
