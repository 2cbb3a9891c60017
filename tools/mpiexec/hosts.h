// Hosts other than this one: which there are, and whether they are known. They are reached by an engine that is there
// (engines.h, elsewhere.h), else by agents (agents.h).
#pragma once

#include "engines.h"
#include "plan.h"

namespace tern::mpiexec {

/// Where the user has named neither hosts nor -here: the hosts of the batch system's allocation, and as many ranks as
/// it has been asked for, if -n is not given. Says so in one line, unless that changes nothing. Without an allocation:
/// the host file that a variable of another MPI names, as those of the Kubernetes MPI Operator do.
void take_allocation(Plan& plan);

/// Reads the host file. True when the plan names a host that is not this one, or the file cannot be read (then
/// `exit_code` is not 0 and the reason is said). No name is looked up in DNS: this machine's names and addresses are
/// compared as text.
bool needs_other_hosts(Plan& plan, int& exit_code);

/// Names and addresses of this machine.
bool is_this_machine(const std::string& host);

/// False, said: a host is in no place where this kind of launcher looks (the Slurm allocation; DNS and the
/// configuration of ssh, which launchers otherwise answer with pages of text, or not at all).
bool hosts_are_known(const Plan& plan, Dialect dialect);

}  // namespace tern::mpiexec
