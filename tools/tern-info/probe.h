// What tern-info finds out by trying, in the words it prints.
#pragma once

#include <string>
#include <vector>

namespace tern::info {

struct Findings {
  std::string library, mpiexec;  ///< paths; empty: not there
  std::string pmix, shared_memory, cross_memory_attach;
  std::vector<std::string> interfaces;  ///< "eth0 10.0.0.5", those that are up
  int cores = 1, cores_quota = 0;
};

Findings probe();

}  // namespace tern::info
