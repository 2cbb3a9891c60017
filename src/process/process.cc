#include "process/process.h"

#include <unistd.h>

#include <algorithm>

#include "comm/context.h"
#include "fabric/shm/shm_path.h"
#include "p2p/core/endpoint.h"
#include "process/launch/cores.h"

namespace tern {
Process::Process(ProcessParts parts)
    : tunables_(std::move(parts.tunables)),
      log_(std::move(parts.log)),
      clock_(std::move(parts.clock)),
      wait_port_(std::move(parts.wait_port)),
      launcher_(std::move(parts.launcher)),
      lock_(std::move(parts.lock)),
      peers_({parts.job, uint32_t(launcher_->rank())}, uint32_t(launcher_->size())),
      rng_(parts.seed),
      progress_(*clock_, *lock_, *wait_port_, parts.waiting, parts.counters, parts.tracer),
      p2p_(progress_, tunables_),
      environment_(p2p_),
      partitioned_(p2p_),
      hang_watch_(launcher_->rank(), *clock_, p2p_, tunables_.hang_report_s),
      node_(launcher_->local_ranks(), peers_, environment_),
      helper_({tunables_, log_, *lock_, progress_, p2p_, engines_, partitioned_, windows_, peers_, node_, paths_},
              std::move(parts.make_event_port)),
      jobs_(progress_, *launcher_, tunables_, *clock_) {
  progress_.set_wait_observer(&hang_watch_);
  hang_watch_.add_report([this] { return partitioned_.report(); });
}

Process::~Process() { helper_.end(); }

uint32_t wanted_engines(const Tunables& tunables) {
  // Twice: threads have few communicators that share an engine then, and threads that wait for a core may have one.
  const int64_t wanted = tunables.engines >= 0 ? tunables.engines : 2 * int64_t(usable_cores());
  return uint32_t(std::min<int64_t>(wanted, Engines::kMost));
}

void Process::share_engine_memory(std::vector<std::unique_ptr<ShmNode>> nodes) { engine_nodes_ = std::move(nodes); }

Engines* Process::make_engines(Counters* counters) {
  const auto count = engine_nodes_.empty() ? wanted_engines(tunables_) : uint32_t(engine_nodes_.size());
  if (engines_ || count == 0) return engines_.get();
  engines_ = std::make_unique<Engines>(count, progress_, tunables_, PeerId(world_rank()), counters);
  for (uint32_t i = 0; i < engine_nodes_.size(); ++i) {
    Engine& engine = (*engines_)[i];
    if (!engine_nodes_[i]) continue;
    engine.add_node_path(std::make_unique<ShmPath>(std::move(engine_nodes_[i]), engine.p2p.sink(), tunables_));
  }
  engine_nodes_.clear();
  for (uint32_t i = 0; i < std::min<size_t>(count, engine_networks_.size()); ++i)
    engines_->add_network(std::move(engine_networks_[i]));
  engine_networks_.clear();
  for (uint32_t i = 0; i < engines_->over_network(); ++i) paths_.add_of_engine(*(*engines_)[i].network.path);
  p2p_.include(*engines_);
  environment_.engines = engines_.get();
  return engines_.get();
}

void Process::add_path(std::unique_ptr<Path> path, uint32_t poll_interval) {
  p2p_.add_path(*path);
  add_path_below(std::move(path), poll_interval);
}

void Process::add_path_below(std::unique_ptr<Path> path, uint32_t poll_interval) {
  progress_.add(*path, poll_interval);
  paths_.add(std::move(path));
}

Error Process::start() {
  PeerId me = PeerId(world_rank());
  for (PeerId peer = 0; peer < PeerId(world_size()); ++peer) {
    const Path* path = p2p_.endpoints().path_to(peer);
    if (!path) {
      return Error(ErrorClass::other, "no path reaches rank " + std::to_string(peer) + " from rank " +
                                          std::to_string(me) + " (paths in use: " + paths_.names() +
                                          "). TERN_PATH restricts the paths; `tern-info` lists them");
    }
    if (peer != me && !node_.share_memory_with(peer))
      environment_.part_bytes = std::max(environment_.part_bytes, path->properties().part_bytes);
  }
  if (log_.wants(LogLevel::info)) log_.info(paths_.describe(world_size()));
  environment_.node_name = hash_of(node_.name());
  environment_.shares_cores = is_oversubscribed();
  world_ =
      std::make_unique<Communicator>(environment_, kWorldContext, Group::strided(me, 0, 1, world_size()), Ref<Group>());
  self_ = std::make_unique<Communicator>(environment_, kSelfContext, Group::strided(me, me, 1, 1), Ref<Group>());
  world_->name = "MPI_COMM_WORLD";
  self_->name = "MPI_COMM_SELF";
  return {};
}

// A rank that waits for a message of this one has not come to the barrier. So until the barrier is over this rank
// polls: it sends again what gets lost, acknowledges, and serves freed receives. Afterwards no rank needs it.
Error Process::finish() {
  if (engines_) engines_->retire();
  progress_.wait_until([&] { return p2p_.sends_complete(); });
  if (launcher_->descriptor() >= 0) progress_.watch(launcher_->descriptor());
  Error error = launcher_->enter_barrier();
  bool over = bool(error);  // after an error it is not asked again
  progress_.wait_until([&] { return over = over || launcher_->barrier_is_over(error); }, EndedBy::launcher);
  if (tunables_.rendezvous_statistics != 0) {
    std::string said = "[tern rank " + std::to_string(world_rank()) + "]" + p2p_.report().statistics();
    if (said.back() == '\n') static_cast<void>(!write(2, said.data(), said.size()));
  }
  if (error) return error;
  return launcher_->finalize();
}

void Process::let_watch_tell(std::function<std::string()> place, std::function<std::string()> collective) {
  hang_watch_.set_surroundings({launcher_->report_descriptor(), std::move(place), std::move(collective),
                                [this] { return on_the_way(); }, [this] { return only_messages_end_waits(); }});
  progress_.watch(hang_watch_.wake_descriptor());
}

std::vector<std::string> Process::on_the_way() {
  if (engines_) engines_->close();
  return paths_.on_the_way(world_size());
}

// Other threads may complete what this one waits for, other jobs may connect, files may be read in the background.
bool Process::only_messages_end_waits() const {
  const bool alone = peers_.size() == size_t(launcher_->size()) && !jobs_.has_ports();
  return alone && !files_ && !lock_->enabled();
}

io::Environment& Process::files() {
  if (!files_) {
    files_ = std::make_unique<io::Environment>(p2p_, tunables_, peers_, node_.name(), [this] { return new_context(); });
  }
  return *files_;
}

void Process::close_window_gates() {
  if (windows_) windows_->close_gates();
}

rma::Environment& Process::windows() {
  if (!windows_) {
    windows_ = std::make_unique<rma::Environment>(
        p2p_, [this] { return new_context(); }, is_oversubscribed());
    hang_watch_.add_report([this] { return windows_->report(); });
  }
  return *windows_;
}

uint64_t Process::new_context() { return make_context(peers_, next_context_++); }

}  // namespace tern
