// Findings: what the checker tells the user, and where the program is. Thread rule: under the rank's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/backtrace.h"

namespace tern::check {

/// What the rooms of the checker get from the C API.
struct Findings {
  /// Tells the user of an error in the program.
  std::function<void(const std::string& text)> report;
  /// Where the program has called MPI: "MPI_Isend at main (a.c:7)".
  std::function<std::string()> place;
  /// The frames of the program's functions, the one that has called MPI first.
  std::function<std::vector<Frame>()> frames;
};

}  // namespace tern::check
