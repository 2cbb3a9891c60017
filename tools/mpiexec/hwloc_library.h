// The functions of hwloc that mpiexec uses, loaded when ranks are first bound: mpiexec needs no hwloc on machines that
// have none, and most jobs never ask it. Thread rule: mpiexec's one thread.
#pragma once

#include <hwloc.h>

namespace tern::mpiexec {

struct Hwloc {
  decltype(&hwloc_topology_init) topology_init;
  decltype(&hwloc_topology_load) topology_load;
  decltype(&hwloc_topology_destroy) topology_destroy;
  decltype(&hwloc_topology_set_all_types_filter) topology_set_all_types_filter;
  decltype(&hwloc_topology_set_type_filter) topology_set_type_filter;
  decltype(&hwloc_topology_set_components) topology_set_components;
  decltype(&hwloc_topology_is_thissystem) topology_is_thissystem;
  decltype(&hwloc_get_type_depth) get_type_depth;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth;
  decltype(&hwloc_bitmap_next) bitmap_next;
};

/// Null: the library is not here, or lacks one of them. It stays loaded.
const Hwloc* load_hwloc();

/// "libhwloc.so.15": the file that load_hwloc looks for.
extern const char* const kHwlocFile;

}  // namespace tern::mpiexec
