#include "process/launch/cores.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

namespace tern {
namespace {

// A file of one short line; empty when there is none.
std::string read_short(const std::string& path) {
  std::string text;
  if (FILE* file = fopen(path.c_str(), "re")) {
    char buffer[512];
    size_t n = fread(buffer, 1, sizeof buffer, file);
    text.assign(buffer, n);
    fclose(file);
  }
  return text;
}

// "200000 100000" (version 2) to 2 processors; 0 for "max 100000" or nothing.
int quota_of(const std::string& text) {
  char* end = nullptr;
  double quota = strtod(text.c_str(), &end);
  if (end == text.c_str()) return 0;
  double period = strtod(end, nullptr);
  return quota > 0 && period > 0 ? std::max(1, int((quota + period - 1) / period)) : 0;
}

}  // namespace

int cores_in_mask() {
  // Machines with more processors than the fixed set holds need a larger one.
  for (int cpus = 1024; cpus <= (1 << 18); cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(size_t(cpus));
    size_t bytes = CPU_ALLOC_SIZE(size_t(cpus));
    CPU_ZERO_S(bytes, set);
    int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1, int(sysconf(_SC_NPROCESSORS_ONLN)));
}

int cores_in_quota() {
  // "0::/user.slice/job": the quota of every group above counts too. In a container the path is often just
  // "/".
  std::string groups = read_short("/proc/self/cgroup");
  size_t at = groups.find("0::/");
  if (at == std::string::npos) return 0;
  std::string path = groups.substr(at + 3, groups.find('\n', at) - at - 3);
  int least = 0;
  for (;;) {
    int quota = quota_of(read_short("/sys/fs/cgroup" + path + "/cpu.max"));
    if (quota > 0) least = least == 0 ? quota : std::min(least, quota);
    size_t slash = path.rfind('/');
    if (slash == std::string::npos || path.empty()) break;
    path.erase(slash);
  }
  return least;
}

int usable_cores() {
  int mask = cores_in_mask(), quota = cores_in_quota();
  return quota > 0 ? std::min(mask, quota) : mask;
}

}  // namespace tern
