// Hosts other than this one: Tern's mpiexec is not a cluster launcher; it calls one that is installed.
#pragma once

#include "plan.h"

namespace tern::mpiexec {

/// Where the user has named neither hosts nor -here: the hosts of the batch system's allocation, and as many ranks as
/// it has been asked for, if -n is not given. Says so in one line, unless that changes nothing.
void take_allocation(Plan& plan);

/// True when the plan names a host that is not this one, or a host file cannot be read (then `exit_code` is
/// not 0 and the reason is said). No name is looked up in DNS: this machine's names and addresses are
/// compared as text.
bool needs_other_hosts(const Plan& plan, int& exit_code);

/// Becomes the engine found: inside a Slurm allocation srun, else prterun, Open MPI's mpirun, Hydra. Returns
/// the exit code only when there is none, after explaining.
int run_elsewhere(const Plan& plan);

}  // namespace tern::mpiexec
