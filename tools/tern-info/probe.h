// What tern-info finds out by trying, in the words it prints.
#pragma once

#include <string>
#include <vector>

#include "base/tunables.h"

namespace tern::info {

struct Findings {
  std::string library, mpiexec;  ///< paths; empty: not there
  std::string pmix, shared_memory, cross_memory_attach;
  std::vector<std::string> interfaces;  ///< "eth0 10.0.0.5", those that are up
  std::vector<std::string> providers;   ///< of libfabric: "efa on rdmap0: yes: ..." or "sockets on eth0: no: why"
  std::vector<std::string> adapters;    ///< RDMA ports: "mlx5_0:1 yes: what it can do" or "mlx5_1:1 no: why"
  int cores = 1, cores_quota = 0;
};

Findings probe(const Tunables& tunables);
/// Where this Tern is installed: the folder above the one this program is in.
std::string prefix();

}  // namespace tern::info
