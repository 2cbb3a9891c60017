// The hosts that a batch system has given to this job, as its variables and files say: Slurm (SLURM_JOB_NODELIST,
// SLURM_TASKS_PER_NODE, SLURM_NTASKS), PBS (PBS_NODEFILE), SGE and its successors (PE_HOSTFILE), Flux (FLUX_URI, and
// what its command says of that instance: variables name no hosts there, flux-environment(7)).
// Thread rule: pure functions; read_allocation reads the environment.
#pragma once

#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "shares.h"

namespace tern::mpiexec {

struct Allocation {
  std::string system;         ///< "Slurm", "PBS", "SGE", "Flux"
  std::string own_name{};     ///< what the batch system calls this host; empty: it does not say
  std::vector<Host> hosts{};  ///< never empty
  int ranks = 0;              ///< how many the user has asked the batch system for, else all slots
};

/// None: no batch system, or it says nothing that can be understood. Asks the command `flux` in an instance of Flux.
std::optional<Allocation> read_allocation();

/// "node[1-3,07],login" to names; empty when it is no such list, or one of more than a million hosts.
std::vector<std::string> expand_host_list(const std::string& list);
/// "2(x3),1" to {2, 2, 2, 1}; empty when it is no such list.
std::vector<int> expand_counts(const std::string& counts);
/// A line for each slot: "node1" twice are two slots.
std::vector<Host> read_pbs_nodes(std::istream& file);
/// Lines "node1 4 queue processors".
std::vector<Host> read_sge_hosts(std::istream& file);

}  // namespace tern::mpiexec
