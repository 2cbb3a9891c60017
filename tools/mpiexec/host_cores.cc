#include "host_cores.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>

#include "process/launch/cores.h"

namespace tern::mpiexec {

HostCores own_cores() {
  HostCores own{usable_cores(), std::max(1, int(sysconf(_SC_NPROCESSORS_ONLN)))};
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), own.kernel);
  return own;
}

CoreShares share_cores(const std::vector<HostCores>& hosts, const std::vector<int>& ranks) {
  struct Machine {
    int64_t cores = 0, usable = 0, ranks = 0;
    int64_t most() const { return std::min(cores, usable); }
  };
  std::map<std::string, Machine> machines;
  const auto machine_of = [&](size_t i) -> Machine& {
    return machines[hosts[i].kernel.empty() ? std::to_string(i) : hosts[i].kernel];
  };
  for (size_t i = 0; i < hosts.size(); ++i) {
    Machine& machine = machine_of(i);
    machine.cores = std::max<int64_t>(machine.cores, hosts[i].machine);
    if (ranks[i] != 0) machine.usable += hosts[i].usable;
    machine.ranks += ranks[i];
  }
  CoreShares shares;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const Machine& machine = machine_of(i);
    int64_t share = hosts[i].usable;
    if (ranks[i] != 0 && machine.usable > machine.cores)
      share = std::min(share, machine.cores * ranks[i] / machine.ranks);
    shares.of_host.push_back(int(share));
  }
  int all = 0;
  for (const auto& [kernel, machine] : machines) all += int(machine.most());
  shares.all = std::max(1, all);
  return shares;
}

}  // namespace tern::mpiexec
