// Process: one rank, owner of everything below it. Nothing here is global: a simulated world has many.
// Thread rule: `lock` guards all of it when the thread level is MPI_THREAD_MULTIPLE; entry points take it, waiting
// gives it up.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/peer_table.h"
#include "base/rng.h"
#include "base/tunables.h"
#include "comm/communicator.h"
#include "fabric/path.h"
#include "io/environment.h"
#include "p2p/engines.h"
#include "p2p/point_to_point.h"
#include "partitioned/environment.h"
#include "process/hang_monitor.h"
#include "process/helper.h"
#include "process/jobs/jobs.h"
#include "process/launcher.h"
#include "process/node_ranks.h"
#include "process/paths.h"
#include "progress/driving.h"
#include "progress/engine.h"
#include "rma/environment.h"

namespace tern {

/// What a Process is built from. The builder (real: process/connect.h, simulated: sim/world.h) chooses the concrete
/// types.
struct ProcessParts {
  Tunables tunables;  ///< `oversubscribed`: 1 or 0
  Log log;
  std::unique_ptr<Clock> clock;
  std::unique_ptr<WaitPort> wait_port;
  WaitPolicy::Setup waiting;
  std::unique_ptr<Launcher> launcher;
  std::shared_ptr<Driving> lock;
  uint64_t seed = 1;
  uint64_t job = 0;              ///< different for every job: RankName::job
  Counters* counters = nullptr;  ///< not owned: they outlive the Process; null: it counts for itself
  Recorder* tracer = nullptr;    ///< not owned: where events are recorded; null: nowhere
  Helper::MakePort make_event_port;
};

/// How many message engines a rank with MPI_THREAD_MULTIPLE wants.
uint32_t wanted_engines(const Tunables& tunables);

class Process {
 public:
  explicit Process(ProcessParts parts);
  ~Process();

  /// Adds a path; best first. A peer's messages take the first that reaches it.
  void add_path(std::unique_ptr<Path> path, uint32_t poll_interval = 1);
  /// Adds a path that messages take only through a path scheduler, which is added later.
  void add_path_below(std::unique_ptr<Path> path, uint32_t poll_interval = 1);
  /// Binds peers to paths and makes MPI_COMM_WORLD and MPI_COMM_SELF. Error: a peer that no path reaches.
  Error start();
  /// Waits until all ranks have called this; afterwards only destruction.
  Error finish();

  /// Message engines, for communicators that are made from now on; once, inside, after `start`. None if the tunable
  /// wants none, or the rank has no choice. `counters`: kMost of them, which outlive this.
  Engines* make_engines(Counters* counters);
  /// One segment for each engine; their number is that of the engines. Null: that engine reaches no other rank. Before
  /// make_engines.
  void share_engine_memory(std::vector<std::unique_ptr<ShmNode>> nodes);
  /// As many as this rank could open; the first ones are used. Before make_engines.
  void give_engine_networks(std::vector<EngineNetwork> networks) { engine_networks_ = std::move(networks); }
  /// Then they must be made: the other ranks of the node rely on it.
  bool has_engine_memory() const { return !engine_nodes_.empty(); }
  /// There are more ranks than cores on this node.
  bool is_oversubscribed() const { return tunables_.oversubscribed == 1; }
  /// Null: none.
  Engines* engines() { return engines_.get(); }

  PeerTable& peers() { return peers_; }
  int world_rank() const { return launcher_->rank(); }
  int world_size() const { return launcher_->size(); }
  Communicator& world() { return *world_; }
  Communicator& self() { return *self_; }
  PointToPoint& p2p() { return p2p_; }
  RankEnvironment& environment() { return environment_; }
  ProgressEngine& progress() { return progress_; }
  Clock& clock() { return *clock_; }
  Launcher& launcher() { return *launcher_; }
  const Tunables& tunables() const { return tunables_; }
  const Log& log() const { return log_; }
  Rng& rng() { return rng_; }
  Driving& lock() { return *lock_; }
  HangMonitor& hang_watch() { return hang_watch_; }
  NodeRanks& node() { return node_; }
  Helper& helper() { return helper_; }
  Jobs& jobs() { return jobs_; }
  /// Lets the watch tell mpiexec of long waits, and wake this rank when it is asked. `place`: as in
  /// HangMonitor::Surroundings.
  void let_watch_tell(std::function<std::string()> place, std::function<std::string()> collective);
  Counters& counters() { return progress_.counters(); }
  Sink& sink() { return p2p_.sink(); }

  /// Ids for new communicators: unique for ever, without agreement (see comm/context.h).
  uint64_t new_context();

  /// Files; made on the first call.
  io::Environment& files();
  /// Windows; made on the first call.
  rma::Environment& windows();
  /// As rma::Environment.
  void close_window_gates();
  /// From the beginning: a peer may offer a partitioned send before this rank has made its receive.
  partitioned::Environment& partitioned() { return partitioned_; }

 private:
  bool only_messages_end_waits() const;
  std::vector<std::string> on_the_way();

  Tunables tunables_;
  Log log_;
  std::unique_ptr<Clock> clock_;
  std::unique_ptr<WaitPort> wait_port_;
  std::unique_ptr<Launcher> launcher_;
  std::shared_ptr<Driving> lock_;
  PeerTable peers_;
  Rng rng_;
  ProgressEngine progress_;
  PointToPoint p2p_;
  std::vector<std::unique_ptr<ShmNode>> engine_nodes_;  ///< until the engines are made
  std::vector<EngineNetwork> engine_networks_;          ///< likewise
  std::unique_ptr<Engines> engines_;
  RankEnvironment environment_;
  partitioned::Environment partitioned_;
  HangMonitor hang_watch_;
  Paths paths_;
  NodeRanks node_;
  std::unique_ptr<Communicator> world_, self_;
  Helper helper_;
  Jobs jobs_;
  std::unique_ptr<io::Environment> files_;
  std::unique_ptr<rma::Environment> windows_;
  uint32_t next_context_ = 16;  // below: the predefined communicators' (comm/context.h)
};

}  // namespace tern
