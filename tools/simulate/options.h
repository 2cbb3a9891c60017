// The command line of the simulator, which mpiexec --simulate writes:
//   simulate --machine NAME [options] -n N program arguments : -n N program ...
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "capi/simulated/simulated_job.h"
#include "mpiexec/plan.h"

namespace tern::simulate {

struct Options {
  std::string machine;                              ///< a name of the shipped files, or a path
  uint32_t ranks_per_node = 0, cores_per_node = 0;  ///< 0: as the machine has cores
  sim::ComputeKind compute = sim::ComputeKind::measured;
  uint64_t constant_ns = 0;
  double compute_factor = 0;  ///< 0: the machine's
  std::string record;         ///< file of bursts: written if measured, read if recorded
  std::vector<std::pair<std::string, std::vector<std::string>>> settings;  ///< tunables with one value or several
  uint64_t seed = 1;
  uint64_t stack_bytes = 0;   ///< 0: ulimit -s
  double most_virtual_s = 0;  ///< 0: no limit
  uint64_t most_events = 0;   ///< 0: no limit
  int timeout_s = 0;          ///< of real time; 0: none
  bool label = false, quiet = false, print_hash = false;
  mpiexec::OutputFiles files;
  std::vector<sim::SimulatedProgram> programs;
};

/// An error names the word that is wrong.
Error read_options(const std::vector<std::string>& words, Options& options);

}  // namespace tern::simulate
