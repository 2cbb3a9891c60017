// Runs an MPI program, as plain C or C++ through the C API, in every rank of a simulated world.
// Thread rule: one world at a time (the C API has one pointer to the current rank).
#pragma once

#include <functional>

#include "process/process.h"
#include "sim/machine.h"

namespace tern::sim {

/// `program` is a main(): it calls MPI_Init and MPI_Finalize. A nonzero return, an abort and a fatal MPI error fail the
/// run. Globals and statics of the program are shared by all ranks: it must not have any that it writes.
/// `prepare`: called with each rank's Process before it starts.
Report run_mpi(WorldOptions options, int (*program)(int, char**),
               const std::function<void(Machine::Rank&, Process&)>& prepare = nullptr);

}  // namespace tern::sim
