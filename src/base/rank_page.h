// What a rank shows of itself to `mpiexec --top` of the same user while it runs: a page of memory (a memfd named
// kName), which the observer maps through /proc/PID/fd. The rank pays for it at its start only; it counts there what it
// counts anyway.
//
// The observer also asks where the rank is: it sets `asked`, then sends `signal`, whose handler fills the sample.
// Writer: the rank; of `asked`: the observer. Both are of one release; the reader checks magic and size.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/counters.h"

namespace tern {

struct RankPage {
  static constexpr char kName[] = "tern-rank";
  static constexpr char kMagic[8] = {'T', 'E', 'R', 'N', 'T', 'O', 'P', '2'};
  char magic[8];
  uint32_t bytes;  ///< of this struct
  int32_t process, rank, size;
  int32_t signal;  ///< 0: the rank does not answer
  char host[64];
  std::atomic<uint32_t> asked;
  // The samples so far, and the last one.
  std::atomic<uint32_t> samples, samples_inside;  ///< inside: in a call of MPI
  char call[48];                                  ///< of the last one inside, "MPI_Recv"
  uint64_t place;                                 ///< and its return address in the program; 0: unknown
  Counters counters;
  /// Of message engines (p2p/engines.h), to be added.
  static constexpr uint32_t kEngines = 8;
  Counters engines[kEngines];
};

}  // namespace tern
