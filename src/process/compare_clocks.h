// Compares a rank's clock with rank 0's, for time lines of several machines (Cristian's algorithm: among some questions
// the one with the shortest round trip has the smallest error, at most half of that round trip).
#pragma once

#include <string>

#include "base/record.h"
#include "process/process.h"

namespace tern {

/// Collective over the job; one rank after the other asks rank 0. `domain`: a rank with the same text has the same
/// clock and asks nothing. A lost rank leaves its comparison undone. Times are those of the Process's clock.
record::ClockSample compare_clocks(Process& process, const std::string& domain);

}  // namespace tern
