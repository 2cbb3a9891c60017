// The errors with which ranks end: those that say the same are printed once, with the list of ranks.
// Thread rule: values.
#pragma once

#include <string>
#include <vector>

#include "process/launch/rank_report.h"

namespace tern::mpiexec {

/// What one rank says.
struct RankError {
  int rank = 0;
  std::vector<ErrorLine> lines{};
};

/// The text to print; each line has its newline. Errors that differ only in the rank's own number, or in addresses, are
/// one: that of the first rank.
std::string folded(const std::vector<RankError>& errors);

}  // namespace tern::mpiexec
