// Which processors each rank may run on. hwloc is asked only when ranks are to be bound: its look at the
// machine takes milliseconds, the affinity mask alone settles most cases.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

#include "plan.h"

namespace tern::mpiexec {

/// One mask per rank, or empty: not bound. `reason` says why, for -v.
///   automatic: each rank gets an equal share of neighbouring cores (two ranks on 64 cores get 32 each: room for
///              their threads); none with more ranks than cores, under a processor quota, or for one rank
///   core:      one core for each rank, none when there are fewer cores
std::vector<cpu_set_t> choose_binding(Binding wish, int ranks, std::string& reason);

}  // namespace tern::mpiexec
