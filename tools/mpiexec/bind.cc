#include "bind.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include "process/launch/cores.h"

namespace tern::mpiexec {
namespace {

// The allowed cores in hwloc's order (neighbours share caches and packages), each as the mask of its allowed
// threads.
std::vector<cpu_set_t> allowed_cores() {
  std::vector<cpu_set_t> cores;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  hwloc_topology_t topology;
  if (sched_getaffinity(0, sizeof mine, &mine) != 0 || hwloc_topology_init(&topology) != 0) return cores;
  // Only cores are of interest: without devices and caches the look at the machine takes 3 ms instead of 12.
  hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "pci");
  if (hwloc_topology_load(topology) == 0) {
    hwloc_obj_t core = nullptr;
    while ((core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr) {
      cpu_set_t set;
      CPU_ZERO(&set);
      if (hwloc_cpuset_to_glibc_sched_affinity(topology, core->cpuset, &set, sizeof set) != 0) continue;
      CPU_AND(&set, &set, &mine);
      if (CPU_COUNT(&set) > 0) cores.push_back(set);
    }
  }
  hwloc_topology_destroy(topology);
  return cores;
}

}  // namespace

std::vector<cpu_set_t> choose_binding(Binding wish, int ranks, std::string& reason) {
  if (wish == Binding::none) {
    reason = "not bound, as asked";
    return {};
  }
  if (wish == Binding::automatic && ranks == 1) {
    reason = "not bound: one rank may use the whole machine";
    return {};
  }
  if (ranks > cores_in_mask()) {
    reason = fmt::format("not bound: {} ranks share {} processors", ranks, cores_in_mask());
    return {};
  }
  if (wish == Binding::automatic && cores_in_quota() > 0) {
    reason = fmt::format("not bound: the control group has a quota of {} processors", cores_in_quota());
    return {};
  }
  std::vector<cpu_set_t> cores = allowed_cores();
  const size_t n = size_t(ranks);
  if (cores.size() < n) {
    reason = fmt::format("not bound: {} ranks share {} cores", ranks, cores.size());
    return {};
  }
  std::vector<cpu_set_t> masks(n);
  for (size_t rank = 0; rank < n; ++rank) {
    CPU_ZERO(&masks[rank]);
    size_t first = wish == Binding::core ? rank : rank * cores.size() / n;
    size_t last = wish == Binding::core ? rank + 1 : (rank + 1) * cores.size() / n;
    for (size_t core = first; core < last; ++core) CPU_OR(&masks[rank], &masks[rank], &cores[core]);
  }
  reason = fmt::format("bound, {} core{} each", wish == Binding::core ? 1 : cores.size() / n,
                       wish == Binding::core || cores.size() / n == 1 ? "" : "s or more");
  return masks;
}

}  // namespace tern::mpiexec
