// The entry of this layer: any collective of MPI 5.0 chapters 6 and 8, blocking, nonblocking or persistent.
// Thread rule: under the rank's lock.
#pragma once

#include "coll/operands.h"
#include "coll/schedule.h"
#include "comm/communicator.h"

namespace tern {

/// blocking: returns when the operation is complete here; `request` is not touched.
/// nonblocking: begins; `request` is the caller's (wait, then release).
/// persistent: `request` is inactive; Request::start begins it.
/// The operands' arrays may be freed when this returns; buffers stay until completion, datatypes and operators are
/// referenced.
/// Errors: memory; the tunable `coll` is wrong; an error of a message (truncation, a lost peer).
Error collective(Communicator& communicator, Operation operation, const Operands& operands, Mode mode,
                 Request*& request);

/// Whether the value of the tunable `coll` is valid (checked at start-up, so that a mistake is reported once and
/// early).
Error check_collective_tunable(std::string_view text);

}  // namespace tern
