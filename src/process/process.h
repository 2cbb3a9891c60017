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
#include "fabric/node_segments.h"
#include "fabric/path.h"
#include "fabric/shm/node_memory.h"
#include "io/environment.h"
#include "p2p/engines.h"
#include "p2p/point_to_point.h"
#include "partitioned/environment.h"
#include "process/hang_monitor.h"
#include "process/jobs/other_jobs.h"
#include "process/jobs/ports.h"
#include "process/launcher.h"
#include "progress/driving.h"
#include "progress/engine.h"
#include "progress/event_handler.h"
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
  /// Makes the event thread's port; null: a thread of the operating system. May throw std::system_error.
  std::function<std::unique_ptr<EventPort>(ProgressEngine&)> make_event_port;
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
  /// The segment of this node, for collectives; before its path is added. `node` lives as long as that path.
  void share_node_memory(ShmNode& node);
  /// Windows' memory that ranks of a node share; before `start`. `for_all`: RankEnvironment::segments_for_all.
  void share_segments(std::unique_ptr<NodeSegments> segments, bool for_all = true);
  /// Starts the event thread if the tunable `progress` wants one and others can reach this rank. After `start`; again
  /// after end_helping only.
  void begin_helping();
  void end_helping();
  bool is_helped() const { return event_handler_ != nullptr; }
  /// Waits until all ranks have called this; afterwards only destruction.
  Error finish();

  /// Message engines, for communicators that are made from now on; once, inside, after `start`. None if the tunable
  /// wants none, or the rank has no choice. `counters`: kMost of them, which outlive this.
  Engines* make_engines(Counters* counters);
  /// One segment for each engine; their number is that of the engines. Null: that engine reaches no other rank. Before
  /// make_engines.
  void share_engine_memory(std::vector<std::unique_ptr<ShmNode>> nodes);
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
  /// Lets the watch tell mpiexec of long waits, and wake this rank when it is asked. `place`: as in
  /// HangMonitor::Surroundings.
  void let_watch_tell(std::function<std::string()> place, std::function<std::string()> collective);
  Counters& counters() { return progress_.counters(); }
  Sink& sink() { return p2p_.sink(); }

  /// Ids for new communicators: unique for ever, without agreement (see comm/context.h).
  uint64_t new_context();
  /// Peers on the same node as this rank, ascending, this rank included (world ranks): those that share memory with it,
  /// or where no memory is shared, those that the launcher names.
  const std::vector<PeerId>& node_peers() const { return node_peers_; }
  /// A number on which all of them agree, and which no rank of another node has.
  RankName node_name() const { return peers_.name(node_peers_.front()); }
  /// The first rank that can share memory with this one; all of those give the same. This rank itself if none can.
  RankName memory_name() const;
  /// How this rank meets other jobs; before `start`. Without it, it meets none.
  void know_other_jobs(std::unique_ptr<OtherJobs> jobs) { other_jobs_ = std::move(jobs); }
  /// Null: none can be met.
  OtherJobs* other_jobs() { return other_jobs_.get(); }
  /// Ports; made on the first call.
  Ports& ports();
  /// Lets the launcher start more processes, and waits until they run, or will not.
  Error spawn(const SpawnRequest& request);

  /// Files; made on the first call.
  io::Environment& files();
  /// Windows; made on the first call.
  rma::Environment& windows();
  /// As rma::Environment.
  void close_window_gates();
  /// From the beginning: a peer may offer a partitioned send before this rank has made its receive.
  partitioned::Environment& partitioned() { return partitioned_; }

 private:
  void log_paths() const;
  bool only_messages_end_waits() const;
  std::vector<std::string> on_the_way() const;
  bool some_peer_needs_helper() const;

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
  std::unique_ptr<Engines> engines_;
  RankEnvironment environment_;
  partitioned::Environment partitioned_;
  HangMonitor hang_watch_;
  std::vector<std::unique_ptr<Path>> paths_;
  std::unique_ptr<NodeMemory> node_memory_;
  std::unique_ptr<NodeSegments> node_segments_;
  std::vector<PeerId> node_peers_;
  std::unique_ptr<Communicator> world_, self_;
  std::function<std::unique_ptr<EventPort>(ProgressEngine&)> make_event_port_;
  std::unique_ptr<EventPort> event_port_;
  std::unique_ptr<EventHandler> event_handler_;
  std::unique_ptr<OtherJobs> other_jobs_;
  std::unique_ptr<Ports> ports_;
  std::unique_ptr<io::Environment> files_;
  std::unique_ptr<rma::Environment> windows_;
  bool spawning_ = false;       ///< the launcher has a request of this rank
  uint32_t next_context_ = 16;  // below: the predefined communicators' (comm/context.h)
};

}  // namespace tern
