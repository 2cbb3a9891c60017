// A job on other hosts, started by the launcher that is installed there (engines.h).
#pragma once

#include <string_view>

#include "plan.h"

namespace tern::mpiexec {

/// Names a launcher for mpiexec to hand over to, or "ssh" for none. For programs it has other values (pmi1, pmix,
/// none).
inline constexpr const char kLauncherVariable[] = "TERN_LAUNCHER";
/// Whether its value is meant for mpiexec.
bool names_launcher(std::string_view value);

/// Whether a launcher is there for these hosts: the one that TERN_LAUNCHER names, else one in PATH. False: agents do it
/// (agents.h), also when TERN_AGENT says how.
bool engine_is_there();

/// Calls the engine found: inside a Slurm allocation srun, else prterun, Open MPI's mpirun, Hydra. Returns its exit
/// code; 124 after a timeout; 1 or 2, said, when there is no engine or a host is unknown. Becomes the engine where
/// nothing remains to be done for it.
int run_elsewhere(const Plan& plan);

}  // namespace tern::mpiexec
