// Processes that the kernel has killed since memory ran out.
#pragma once

#include <cstdint>

namespace tern::mpiexec {

/// How many on this host since it was booted, for lack of the host's memory or of a control group's. 0: not known.
uint64_t killed_for_memory();

}  // namespace tern::mpiexec
