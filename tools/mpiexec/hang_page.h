// What all ranks of a job wait for, on one page: groups of ranks in the same call, ranks that are missing in a
// collective operation, messages that do not fit what is asked for, and ranks that wait for each other in a circle.
// Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "process/launch/rank_report.h"

namespace tern::mpiexec {

/// What mpiexec knows of one rank.
struct RankView {
  enum class Stage {
    not_started,  ///< has not called MPI_Init
    inside,       ///< between MPI_Init and MPI_Finalize
    meeting,      ///< in MPI_Init or MPI_Finalize, until all ranks are there
    finalized,    ///< has called MPI_Finalize
    ended,        ///< its process has ended
  };
  Stage stage = Stage::inside;
  bool stopped = false;   ///< its process, by a signal or a debugger
  uint64_t alone_ms = 0;  ///< it has not communicated for so long; 0: unknown
  RankReport report{};
};

/// The page, in indented lines.
std::string hang_page(const std::vector<RankView>& ranks);

}  // namespace tern::mpiexec
