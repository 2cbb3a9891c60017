// What is wrong with an operation, as far as its origin can tell before anything is sent (MPI 5.0, 12.3).
// Thread rule: under the rank's lock.
#pragma once

#include "rma/memory_map.h"
#include "rma/operation.h"

namespace tern::rma {

/// No error: rank, datatypes and range are right. Only the target knows what is attached to a dynamic window.
Error check_operation(const WindowContext& context, const MemoryMap& memory, const Operation& operation);

}  // namespace tern::rma
