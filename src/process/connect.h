// Wire-up of a real rank: from the environment of this operating-system process to a started Process. The only place
// that knows the concrete clock, wait port, launcher and paths together (the simulator's is sim/world.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/config_file.h"
#include "process/process.h"

namespace tern {

/// Parts of a rank that exist before and after its Process. Not owned; they outlive the Process.
struct RankContext {
  std::shared_ptr<Driving> lock;
  Counters* counters = nullptr;  ///< null: the Process counts for itself
  Recorder* tracer = nullptr;    ///< null: no events are recorded
  bool engines = false;          ///< the rank may have message engines (p2p/engines.h): MPI_THREAD_MULTIPLE
  /// Tunables set by the program (MPI_T control variables), by name; they override the environment.
  std::map<std::string, std::string> settings;
};

/// The tunables of this process: from the configuration files, the environment, and `context`.
Error read_tunables(const RankContext& context, Tunables& tunables, Configuration& configuration);

/// Collective over the job. Null exactly when `error` is set.
std::unique_ptr<Process> connect_process(const RankContext& context, Error& error);

}  // namespace tern
