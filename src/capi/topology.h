// Errors that the topology bodies share. Source: MPI 5.0 chapter 8. Thread rule: under the rank's lock.
#pragma once

#include "base/error.h"
#include "comm/communicator.h"

namespace tern::capi {

/// MPI_ERR_TOPOLOGY; `kind`: "cartesian", ...
Error no_topology(const Communicator& comm, const char* kind);
/// MPI_ERR_ARG when `n` elements are to be read or written at a null pointer.
Error check_array(int n, const void* array, const char* name);

}  // namespace tern::capi
