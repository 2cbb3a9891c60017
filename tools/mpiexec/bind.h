// Which processors each rank may run on. hwloc is used only when ranks are bound: reading the machine takes
// milliseconds, and the affinity mask alone settles most cases.
#pragma once

#include <sched.h>

#include <string>
#include <vector>

namespace tern::mpiexec {

/// Parts of a machine, as hwloc knows them.
enum class Part { automatic, none, hwthread, core, l3cache, numa, socket, machine };

/// The request, by --map-by and --bind-to.
struct Placement {
  Part map = Part::automatic;  ///< consecutive ranks go to consecutive parts; automatic: neighbours are filled first
  int per_part = 0;            ///< ppr:N: so many ranks on one part, then the next; 0: not given
  int cores_per_rank = 0;      ///< pe=N; 0: not given
  Part bind = Part::automatic;
  bool report = false;
  std::string map_text{}, bind_text{};  ///< as the user has written them; empty: not given
};

struct Binding {
  std::vector<cpu_set_t> masks{};     ///< one for each rank; none: not bound
  std::string reason{};               ///< why, for -v
  std::vector<std::string> places{};  ///< of each rank, in words; only with Placement::report
};

/// Neither map nor bind given: each rank gets an equal share of neighbouring cores (two ranks on 64 cores get 32 each:
/// room for their threads); no binding with more ranks, times `threads` of each, than cores, or than `cores`, their
/// share of them (host_cores.h), under a processor quota, or for one rank. Otherwise ranks are distributed over the
/// parts of `map`; without pe=N the ranks of a part share its cores. They are bound to what they got, or to the whole
/// parts of `bind` around it. No binding with fewer cores.
Binding choose_binding(const Placement& wish, int ranks, int threads, int cores);

/// Reads "core", "socket:pe=2", "ppr:2:socket" (of --map-by) and "core", "core:2" (of --bind-to). False: neither.
bool read_map(const std::string& text, Placement& placement);
bool read_bind(const std::string& text, Placement& placement);

}  // namespace tern::mpiexec
