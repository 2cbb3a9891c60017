#include "fabric/shm/free_memory.h"

#include <algorithm>
#include <fstream>

namespace tern::shm {
namespace {

constexpr uint64_t kUnlimited = ~uint64_t{0};  // more than any host has

/// The number in a file that holds just one; kUnlimited if it does not ("max", or no such file).
uint64_t number_in(const std::string& file) {
  uint64_t value = kUnlimited;
  std::ifstream in(file);
  return in >> value ? value : kUnlimited;
}

/// The value behind `name` in lines of "name value"; 0: there is none.
uint64_t named_in(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  std::string word;
  for (uint64_t value = 0; in >> word;) {
    if (word == name && in >> value) return value;
    in.ignore(4096, '\n');
  }
  return 0;
}

uint64_t left_in_group(const std::string& folder) {
  const uint64_t limit = number_in(folder + "/memory.max");
  if (limit == kUnlimited) return kUnlimited;
  const uint64_t used = number_in(folder + "/memory.current");
  // The file cache counts as used, but the kernel gives it up before it kills a process.
  const uint64_t cache =
      named_in(folder + "/memory.stat", "inactive_file") + named_in(folder + "/memory.stat", "active_file");
  if (used == kUnlimited) return limit;
  const uint64_t kept = used - std::min(used, cache);
  return limit - std::min(limit, kept);
}

}  // namespace

uint64_t free_memory_bytes(const std::string& root) {
  uint64_t least = kUnlimited;
  if (const uint64_t available = named_in(root + "proc/meminfo", "MemAvailable:"); available != 0)
    least = available * 1024;
  std::ifstream groups(root + "proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  // The limits of all enclosing groups apply, too.
  for (;; path.resize(path.rfind('/'))) {
    while (path.ends_with('/')) path.pop_back();
    std::string group = root;
    group += "sys/fs/cgroup";
    group += path;
    least = std::min(least, left_in_group(group));
    if (path.find('/') == std::string::npos) return least;
  }
}

}  // namespace tern::shm
