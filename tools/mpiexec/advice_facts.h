// What is known of each place in the program: the facts from which the rules of --explain (advice.cc) give advice.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "explain.h"

namespace tern::mpiexec {

/// Somebody who was waited for at one place.
struct Late {
  uint64_t times = 0, ns = 0;
  uint64_t computed_ns = 0;              ///< of that time: outside of MPI
  std::map<uint32_t, uint64_t> held_ns;  ///< of that time: in calls, by site
  std::map<uint32_t, uint64_t> at;       ///< where it was when it came, by site: how often
};

/// Calls in a row at one place.
struct Runs {
  uint64_t calls = 0, runs = 0, ns = 0;
  double length() const { return runs == 0 ? 0 : double(calls) / double(runs); }
};

/// What is known of one place.
struct Facts {
  uint64_t calls = 0, total_ns = 0, bytes = 0, waits = 0;
  std::array<uint64_t, kCauses> by_cause{};
  std::set<uint32_t> ranks;
  std::map<int, Late> senders, receivers, members, targets;  ///< who was waited for
  // Of messages: how long a rank waited for another, how long the other waited here for anybody, and how long what a
  // rank waits for was there before it, by rank and other rank (mutual_ns).
  std::map<std::pair<int, int>, uint64_t> waited_ns, early_ns;
  std::map<int, uint64_t> waits_of_ns;
  std::map<int, uint64_t> messages_of;  ///< how many are received here, by sender
  // Of a collective: how long after the mean of all each rank came, added up, and how many operations there were.
  std::map<int, double> offset_ns;
  uint64_t operations = 0, uneven_ns = 0;
  Runs small, fan_out, fan_in, tests, small_together;
  std::map<uint32_t, Runs> before;  ///< a barrier directly before, or behind, such a place
  // Messages that are sent here: not eagerly, and only a little longer than the limit.
  uint64_t just_above = 0, just_above_bytes = 0, limit = 0;
  std::string path;
  // Messages that are received here.
  uint64_t received = 0, unexpected = 0, unexpected_bytes = 0, queued_ns = 0;

  uint64_t own_ns() const { return by_cause[size_t(Cause::none)]; }
};

/// 0 of nothing.
inline double part(uint64_t of, uint64_t whole) { return whole == 0 ? 0 : double(of) / double(whole); }

/// By site.
std::vector<Facts> facts_of(const Timeline& timeline);

}  // namespace tern::mpiexec
