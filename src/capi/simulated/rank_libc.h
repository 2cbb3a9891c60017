// Functions that simulated programs and their libraries get instead of those of the C library (and MPI_Wtime), because
// the C library's concern the whole process, or real time:
//   - the end: exit, atexit, abort and what belongs to them end the rank;
//   - output to descriptors 1 and 2 goes through the rank's streams;
//   - time is virtual; to sleep is to let it pass;
//   - state that the C library has once: random numbers, strtok, getopt;
//   - threads are those of the simulated rank (rank_threads.h);
//   - what cannot be simulated says so: fork, exec, timers.
// Thread rule: on the fiber of the current RankProcess.
#pragma once

#include <cstdint>
#include <string_view>

namespace tern::sim {

/// The function that takes the place of that one; null: the C library's own is used.
const void* find_replaced(std::string_view name);

/// What CLOCK_REALTIME tells, in ns.
uint64_t time_of_day_ns();

}  // namespace tern::sim
