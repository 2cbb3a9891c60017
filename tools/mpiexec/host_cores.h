// Processors of a job's hosts. Several hosts may be one machine (containers, pods, network namespaces): their ranks
// share its processors, which no host can know alone. Thread rule: pure functions, but for own_cores.
#pragma once

#include <string>
#include <vector>

namespace tern::mpiexec {

struct HostCores {
  int usable = 1;        ///< that processes there may use (process/launch/cores.h)
  int machine = 1;       ///< of the machine
  std::string kernel{};  ///< the machine's: an identifier that no other has; empty: not known
};

/// Of the host of this process. Reads /proc.
HostCores own_cores();

struct CoreShares {
  std::vector<int> of_host{};  ///< for the ranks of each host together; 0: less than one
  int all = 1;                 ///< of all machines; at least 1
};
/// `usable` of each host, but where hosts are one machine that has fewer than all of them may use, that machine's in
/// proportion to the ranks. `ranks`: on each host.
CoreShares share_cores(const std::vector<HostCores>& hosts, const std::vector<int>& ranks);

}  // namespace tern::mpiexec
