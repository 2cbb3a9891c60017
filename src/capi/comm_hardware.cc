#include "capi/comm_hardware.h"

#include <dirent.h>
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace tern::capi {

namespace {

std::string cpu_folder(int cpu) { return "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/"; }

std::string read_line(const std::string& path) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "re"), fclose);
  char line[256];
  if (!file || !fgets(line, sizeof line, file.get())) return {};
  line[strcspn(line, "\n")] = 0;
  return line;
}

/// The first number in the file, -1 when there is none.
int64_t read_number(const std::string& path) {
  std::string line = read_line(path);
  char* end = nullptr;
  long value = strtol(line.c_str(), &end, 10);
  return end == line.c_str() ? -1 : value;
}

int64_t package_of(int cpu) { return read_number(cpu_folder(cpu) + "topology/physical_package_id"); }

int64_t core_of(int cpu) {
  // The first processor of the core names it, whatever the package.
  return read_number(cpu_folder(cpu) + "topology/thread_siblings_list");
}

int64_t numa_node_of(int cpu) {
  std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(cpu_folder(cpu).c_str()), closedir);
  if (!folder) return -1;
  while (dirent* entry = readdir(folder.get())) {
    int node;
    if (sscanf(entry->d_name, "node%d", &node) == 1) return node;
  }
  return -1;
}

template <int kLevel>
int64_t cache_of(int cpu) {
  for (int index = 0; index < 8; ++index) {
    std::string cache = cpu_folder(cpu) + "cache/index" + std::to_string(index) + "/";
    std::string type = read_line(cache + "type");
    if (type.empty()) break;
    if (type == "Instruction" || read_number(cache + "level") != kLevel) continue;
    return read_number(cache + "shared_cpu_list");  // the first processor names it
  }
  return -1;
}

int64_t machine_of(int) { return 0; }
int64_t self_of(int cpu) { return cpu; }

}  // namespace

std::vector<HardwareLevel> hardware_levels() {
  struct Level {
    const char* name;
    int64_t (*instance_of)(int cpu);
  };
  static constexpr Level kLevels[] = {
      {"hwloc://Machine", machine_of},  {"hwloc://Package", package_of},  {"hwloc://NUMANode", numa_node_of},
      {"hwloc://L3Cache", cache_of<3>}, {"hwloc://L2Cache", cache_of<2>}, {"hwloc://L1Cache", cache_of<1>},
      {"hwloc://Core", core_of},        {"hwloc://PU", self_of},
  };
  std::vector<int> cpus;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  std::vector<HardwareLevel> levels;
  for (const Level& level : kLevels) {
    int64_t instance = cpus.empty() ? -1 : level.instance_of(cpus[0]);
    for (size_t i = 1; i < cpus.size() && instance >= 0; ++i)
      if (level.instance_of(cpus[i]) != instance) instance = -1;
    levels.push_back({level.name, instance});
  }
  return levels;
}

}  // namespace tern::capi
