// How many processors a process can use: its affinity mask, and the processor quota of its control group (a container
// with --cpus=2 on a machine of 64 processors has 64 in the mask and gets the time of 2).
#pragma once

namespace tern {

/// Processors in this process's affinity mask; at least 1.
int cores_in_mask();
/// The control groups' quota in whole processors, rounded up; 0 when there is none.
int cores_in_quota();
/// The smaller of both.
int usable_cores();

}  // namespace tern
