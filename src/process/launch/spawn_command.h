// MPI_Comm_spawn by our mpiexec: the processes that it asks for are a job of their own, which an mpiexec of its own
// starts and supervises. This is that mpiexec's command line and environment; shared by mpiexec, which starts it for
// the jobs that it runs, and by programs that were started alone.
//
//   TERN_PARENT_PORT   the port at which the parents wait; the ranks get it, too
//   TERN_SPAWN_ANSWER  a descriptor, for one line when its ranks have called MPI_Init, or will not:
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "process/launcher.h"

namespace tern {

inline constexpr const char kSpawnAnswerVariable[] = "TERN_SPAWN_ANSWER";
inline constexpr const char kParentPortVariable[] = "TERN_PARENT_PORT";
inline constexpr std::string_view kSpawnStarted = "started", kSpawnFailed = "failed: ", kSpawnBroken = "broken";

/// The most processes a job may have (mpiexec -n).
inline constexpr int kMaxJobRanks = 1 << 20;

/// argv of the mpiexec, its name included. `universe`: the new job's MPI_UNIVERSE_SIZE; -1: without limit.
std::vector<std::string> spawn_command(const SpawnRequest& request, int universe);
/// What to pass for it: as many processes as the parents expect, and at least those that there are then.
int universe_of_spawned(const SpawnRequest& request, int parents, int expected);

}  // namespace tern
