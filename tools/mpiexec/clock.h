// The time by which mpiexec measures its limits.
#pragma once

#include <cstdint>
#include <ctime>

namespace tern::mpiexec {

/// Milliseconds of CLOCK_MONOTONIC.
inline uint64_t now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000 + uint64_t(now.tv_nsec) / 1'000'000;
}

}  // namespace tern::mpiexec
