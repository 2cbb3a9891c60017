// A job on other hosts, started by the launcher that is installed there (engines.h).
#pragma once

#include "plan.h"

namespace tern::mpiexec {

/// Calls the engine found: inside a Slurm allocation srun, else prterun, Open MPI's mpirun, Hydra. Returns its exit
/// code; 124 after a timeout; 1 or 2, said, when there is no engine or a host is unknown. Becomes the engine where
/// nothing remains to be done for it.
int run_elsewhere(const Plan& plan);

}  // namespace tern::mpiexec
