// Wire-up of a real rank: from the environment of this operating-system process to a started Process. The only place
// that knows the concrete clock, idle, launcher and paths together (the simulator's is sim/world.h).
#pragma once

#include <memory>

#include "process/process.h"

namespace tern {

/// Collective over the job. Null exactly when `error` is set.
std::unique_ptr<Process> connect_process(std::shared_ptr<RankLock> lock, Error& error);

}  // namespace tern
