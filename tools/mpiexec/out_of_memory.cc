#include "out_of_memory.h"

#include <fstream>
#include <string>

namespace tern::mpiexec {

uint64_t killed_for_memory() {
  std::ifstream events("/proc/vmstat");
  std::string name;
  for (uint64_t count; events >> name >> count;) {
    if (name == "oom_kill") return count;
  }
  return 0;
}

}  // namespace tern::mpiexec
