// What mpiexec --simulate says at the end: the prediction, and what it is made of.
#pragma once

#include <string>
#include <vector>

#include "capi/simulated/simulated_job.h"

namespace tern::simulate {

/// The first lines: what was simulated, and how long it takes there.
std::string headline(const sim::SimulatedJobReport& report, const sim::WorldOptions& world, const std::string& machine,
                     sim::ComputeKind compute, double real_s);
/// The tables: time by MPI call, messages by protocol and size, links, adapters, memory of RDMA.
std::string tables(const sim::SimulatedJobReport& report, uint32_t ranks);

/// A row of the table of what-ifs.
struct WhatIf {
  std::vector<std::string> values;  ///< of the settings
  double time_s = 0, mpi_percent = 0, messages = 0;
  int exit_code = 0;
};
std::string what_if_table(const std::vector<std::string>& names, const std::vector<WhatIf>& rows);
/// All messages that ranks have sent, by any protocol.
uint64_t messages_sent(const Counters& counters);

}  // namespace tern::simulate
