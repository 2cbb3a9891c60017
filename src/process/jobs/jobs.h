// Jobs: how this rank meets other jobs (MPI 5.0, chapter 11): those that it knows, its ports, and the start of more
// processes. Thread rule: under the rank's lock.
#pragma once

#include <memory>

#include "process/jobs/other_jobs.h"
#include "process/jobs/ports.h"
#include "process/launcher.h"
#include "progress/engine.h"

namespace tern {

class Jobs {
 public:
  /// All outlive this.
  Jobs(ProgressEngine& progress, Launcher& launcher, const Tunables& tunables, Clock& clock)
      : progress_(progress), launcher_(launcher), tunables_(tunables), clock_(clock) {}
  /// How this rank meets others; before Process::start. Without it, it meets none.
  void know(std::unique_ptr<OtherJobs> others) { others_ = std::move(others); }
  /// Null: none can be met.
  OtherJobs* others() { return others_.get(); }
  /// Made on the first call.
  Ports& ports();
  bool has_ports() const { return ports_ != nullptr; }
  /// Lets the launcher start more processes, and waits until they run, or will not.
  Error spawn(const SpawnRequest& request);

 private:
  ProgressEngine& progress_;
  Launcher& launcher_;
  const Tunables& tunables_;
  Clock& clock_;
  std::unique_ptr<OtherJobs> others_;
  std::unique_ptr<Ports> ports_;
  bool spawning_ = false;  ///< the launcher has a request of this rank
};

}  // namespace tern
