// Which pieces of its node's hardware this process is bound to, for MPI_Comm_split_type (MPI 5.0, 7.4.2) and
// MPI_Get_hw_resource_info (9.1.2). Read from the affinity mask and from what Linux shows under
// /sys/devices/system; names are those of hwloc, as the standard recommends.
#pragma once

#include <cstdint>
#include <vector>

namespace tern::capi {

struct HardwareLevel {
  const char* name;  ///< "hwloc://Machine", "hwloc://Package", ... from the largest to the smallest
  int64_t instance;  ///< which one of them on this node all the process's processors belong to; -1: several,
                     ///< or unknown
};

/// All levels that are known here, at the moment of the call.
std::vector<HardwareLevel> hardware_levels();

}  // namespace tern::capi
