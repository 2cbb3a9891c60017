// The simulated world: a Process on every rank of a simulated machine. The simulated counterpart of process/connect.h:
// it makes a rank of simulated clock, idle, launcher and paths.
//
//   sim::Report report = sim::World(options).run([](Process& process) { ... });
//   ASSERT_TRUE(report.ok()) << report.failure;
//
// Thread rule: one thread per world.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "process/process.h"
#include "sim/machine.h"

namespace tern::sim {

class World {
 public:
  explicit World(WorldOptions options) : machine_(std::move(options)) {}

  /// Runs `body` on every rank, between the start and the finish of its Process. Exceptions of the body end the run.
  Report run(const std::function<void(Process&)>& body);
  /// Hands out the parts from which each rank makes its Process itself (the C API's MPI_Init does).
  Report run_unstarted(const Machine::Body& body) { return machine_.run(body); }
  /// A Process of that rank: paths added and all ranks wired up, not yet started. Collective. `counters`, `tracer`:
  /// see ProcessParts. `settings`: tunables of this rank alone, by name; one that is wrong throws.
  static std::unique_ptr<Process> make_process(Machine::Rank& rank, std::shared_ptr<Driving> lock,
                                               Counters* counters = nullptr, Recorder* tracer = nullptr,
                                               const std::map<std::string, std::string>& settings = {});

  Machine& machine() { return machine_; }

 private:
  Machine machine_;
};

}  // namespace tern::sim
