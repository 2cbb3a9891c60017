// A job of ordinary MPI programs on a simulated machine: what mpiexec --simulate runs. Thread rule: one job at a time,
// on one thread (the C API and the C library have one current rank).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "capi/simulated/compute_time.h"
#include "capi/simulated/program_copies.h"
#include "process/process.h"
#include "sim/machine.h"

namespace tern::sim {

/// Some ranks of a job that run the same program.
struct SimulatedProgram {
  std::string path;                  ///< the file
  std::vector<std::string> command;  ///< its arguments, the first is its name
  uint32_t ranks = 1;
};

struct SimulatedJobOptions {
  WorldOptions world;  ///< `ranks` is set from the programs
  std::vector<SimulatedProgram> programs;
  ComputeOptions compute;
  /// Calls are counted, and their times are known. Off: calls of several threads may go the short ways that they have
  /// on real machines (capi/without_lock.h), and computation must take no time.
  bool observe = true;
  bool record = false;  ///< ranks leave records as TERN_RECORD says, in virtual time
  /// Output of a rank to stream 1 or 2. Null: to the simulator's own.
  std::function<void(uint32_t rank, int stream, std::string_view text)> output;
  /// Called with each rank's Process before it starts.
  std::function<void(Machine::Rank&, Process&)> prepare;
};

/// Calls of one MPI function, of all ranks.
struct CallTotals {
  uint64_t calls = 0, time_ns = 0, longest_ns = 0;
};

struct SimulatedJobReport {
  int exit_code = 0;       ///< of the first rank that failed; 128 + n for signal n
  std::string failure;     ///< for people; empty: all ranks have ended well
  Report run;              ///< of the simulation
  uint64_t time_ns = 0;    ///< predicted: when the last rank's program ended
  uint32_t last_rank = 0;  ///< which that was
  uint64_t mpi_ns = 0;     ///< in calls of MPI, all ranks
  uint64_t compute_ns = 0;
  std::vector<CallTotals> calls;    ///< by number of the function (names.gen.h)
  Counters counters{};              ///< sums, peaks: the highest
  std::vector<std::string> cannot;  ///< what programs wanted and did not get
  std::string links;                ///< what the network's links and adapters carried, as a table
};

/// Reads the programs. An error says for the user why one cannot be simulated.
class SimulatedJob {
 public:
  explicit SimulatedJob(SimulatedJobOptions options);
  ~SimulatedJob();
  SimulatedJob(const SimulatedJob&) = delete;
  SimulatedJob& operator=(const SimulatedJob&) = delete;

  Error load();
  /// Once, after `load`.
  SimulatedJobReport run();

 private:
  class RankRun;
  friend class RankRun;
  void rank_main(Machine::Rank& rank);
  void judge(RankRun& rank);
  void fail(uint32_t rank, int code, const std::string& what);
  void explain_deadlock();
  void describe_links(Machine& machine);

  SimulatedJobOptions options_;
  std::vector<ProgramTemplate> templates_;  ///< by program
  std::vector<std::unique_ptr<ProgramCopies>> copies_;
  std::vector<std::unique_ptr<RankRun>> ranks_;
  SimulatedJobReport report_;
  Machine* machine_ = nullptr;  ///< while it runs
};

}  // namespace tern::sim
