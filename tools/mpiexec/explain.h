// mpiexec --explain: the places in the program that cost most, what they wait for, and what to do about it.
//
// A place costs the time that ranks spend in its calls, over all ranks. Advice is given where a rule knows the cause,
// and the cost is worth it (kWorth of the time of all ranks): a program whose ranks wait evenly and seldom gets none.
// Rules are in advice.cc.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "timeline.h"

namespace tern::mpiexec {

/// What one place costs, over all ranks.
struct PlaceCost {
  uint32_t site = 0;  ///< in Timeline::sites
  uint64_t calls = 0, total_ns = 0;
  std::array<uint64_t, kCauses> by_cause{};  ///< adds up to total_ns
  std::vector<uint32_t> advice;              ///< in Explanation::advice

  uint64_t waited_ns() const { return total_ns - by_cause[size_t(Cause::none)]; }
};

/// What one rank's time went into: MPI by cause; the rest of `total_ns` is its own work.
struct RankCost {
  uint64_t total_ns = 0;
  std::array<uint64_t, kCauses> by_cause{};
};

struct Advice {
  uint32_t site;
  uint64_t cost_ns;  ///< what could be saved at most, over all ranks
  const char* rule;  ///< a name, "late_sender"
  std::string text;  ///< a sentence or two
};

struct Explanation {
  uint64_t all_ns = 0;            ///< the time of all ranks together
  std::vector<PlaceCost> places;  ///< the costliest first
  std::vector<RankCost> ranks;    ///< by record; of all its threads
  std::vector<Advice> advice;     ///< the costliest first
};

Explanation explain(const Timeline& timeline);
/// For a terminal: the first ten places, with their advice.
std::string explanation_text(const Timeline& timeline, const Explanation& explanation);

}  // namespace tern::mpiexec
