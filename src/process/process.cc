#include "process/process.h"

#include <algorithm>

#include "comm/context.h"

namespace tern {

Process::Process(ProcessParts parts)
    : tunables_(std::move(parts.tunables)),
      clock_(std::move(parts.clock)),
      idle_(std::move(parts.idle)),
      launcher_(std::move(parts.launcher)),
      lock_(std::move(parts.lock)),
      rng_(parts.seed),
      progress_(*clock_, *idle_),
      p2p_(*clock_, progress_, tunables_),
      hang_watch_(launcher_->rank(), *clock_, p2p_, tunables_.hang_report_s) {
  progress_.set_watch(&hang_watch_);
  for (int rank : launcher_->local_ranks()) node_peers_.push_back(PeerId(rank));
}

Process::~Process() = default;

void Process::add_path(std::unique_ptr<Path> path, uint32_t poll_interval) {
  progress_.add_path(*path, poll_interval);
  paths_.push_back(std::move(path));
}

void Process::share_node_memory(ShmNode& node) {
  node_memory_ = std::make_unique<NodeMemory>(node);
  node_peers_ = node.members();
  p2p_.node_memory = node_memory_.get();
}

Error Process::start() {
  PeerId me = PeerId(world_rank());
  for (PeerId peer = 0; peer < PeerId(world_size()); ++peer) {
    auto path = std::find_if(paths_.begin(), paths_.end(), [&](auto& p) { return p->reaches(peer); });
    if (path == paths_.end()) {
      std::string names;
      for (auto& p : paths_) names += (names.empty() ? "" : ", ") + std::string(p->properties().name);
      return Error(ErrorClass::other, "no path reaches rank " + std::to_string(peer) + " from rank " +
                                          std::to_string(me) + " (paths in use: " + names +
                                          "). TERN_PATH restricts the paths; `tern-info` lists them");
    }
    p2p_.connect(peer, **path);
  }
  world_ = std::make_unique<Communicator>(p2p_, kWorldContext, Group::strided(me, 0, 1, world_size()), Ref<Group>());
  self_ = std::make_unique<Communicator>(p2p_, kSelfContext, Group::strided(me, me, 1, 1), Ref<Group>());
  world_->name = "MPI_COMM_WORLD";
  self_->name = "MPI_COMM_SELF";
  return {};
}

Error Process::finish() {
  progress_.wait_until([&] { return p2p_.quiet(); });
  // Nothing of ours is on its way any more, and nobody's to us that we still want: the barrier needs no progress.
  if (Error error = launcher_->barrier()) return error;
  return launcher_->finalize();
}

uint64_t Process::new_context() { return make_context(PeerId(world_rank()), next_context_++); }

}  // namespace tern
