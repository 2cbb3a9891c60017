#include "hwloc_library.h"

#include <dlfcn.h>

namespace tern::mpiexec {

// The binary interface of hwloc 2, whose header this was compiled with.
const char* const kHwlocFile = "libhwloc.so.15";

namespace {

template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

const Hwloc* load() {
  static Hwloc hwloc;
  void* const library = dlopen(kHwlocFile, RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  const bool all = find(library, "hwloc_topology_init", hwloc.topology_init) &&
                   find(library, "hwloc_topology_load", hwloc.topology_load) &&
                   find(library, "hwloc_topology_destroy", hwloc.topology_destroy) &&
                   find(library, "hwloc_topology_set_all_types_filter", hwloc.topology_set_all_types_filter) &&
                   find(library, "hwloc_topology_set_type_filter", hwloc.topology_set_type_filter) &&
                   find(library, "hwloc_topology_set_components", hwloc.topology_set_components) &&
                   find(library, "hwloc_topology_is_thissystem", hwloc.topology_is_thissystem) &&
                   find(library, "hwloc_get_type_depth", hwloc.get_type_depth) &&
                   find(library, "hwloc_get_obj_by_depth", hwloc.get_obj_by_depth) &&
                   find(library, "hwloc_bitmap_next", hwloc.bitmap_next);
  return all ? &hwloc : nullptr;
}

}  // namespace

const Hwloc* load_hwloc() {
  static const Hwloc* const hwloc = load();
  return hwloc;
}

}  // namespace tern::mpiexec
