// POSIX threads of simulated programs: the functions that they get instead of the C library's. Threads are fibers that
// take turns on the rank's core (sim/threads.h). A thread that waits for a lock, a condition or a barrier lets
// others run. A thread that takes or gives back a lock may lose its turn. A thread-local variable has the same address
// in all threads of a rank; its content is that of the thread that runs. Threads that are started in other ways
// (OpenMP's run-time, thrd_create) are refused.
// Thread rule: on the fiber of the current RankProcess.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>

namespace tern::sim {

/// What a rank's threads hold and wait for, by the program's object.
struct RankThreads {
  struct Mutex {
    size_t owner = 0;    ///< Threads::number
    uint32_t depth = 0;  ///< 0: nobody has it
  };
  struct Barrier {
    uint32_t count = 0, there = 0;
    uint64_t round = 0;
  };
  std::unordered_map<const void*, Mutex> mutexes;
  std::unordered_map<const void*, Barrier> barriers;
};

struct ReplacedFunction {
  std::string_view name;
  const void* function;
};
std::span<const ReplacedFunction> thread_functions();

}  // namespace tern::sim
