// The order of start-up. A rank publishes what it has before a fence and meets the others after it; when all ranks turn
// out to share memory, no socket is ever opened.
//
//   launcher -> job key -> [shm socket bound] [TCP card put] -> fence -> shm segment joined -> (TCP after all? fence)
#include "process/connect.h"

#include <unistd.h>

#include <algorithm>

#include "coll/collectives.h"
#include "fabric/self/self_path.h"
#include "fabric/shm/shm_path.h"
#include "fabric/tcp/tcp_path.h"
#include "progress/real_idle.h"

namespace tern {
namespace {

constexpr std::string_view kCardKey = "tcp-card";

struct Allowed {
  bool shm = true, tcp = true;
};

// TERN_PATH; `self` is always there.
Error read_allowed(std::string_view list, Allowed& allowed) {
  if (list.empty()) return {};
  allowed = {false, false};
  while (!list.empty()) {
    size_t comma = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (name == "shm") {
      allowed.shm = true;
    } else if (name == "tcp") {
      allowed.tcp = true;
    } else if (name != "self" && !name.empty()) {
      return Error(ErrorClass::arg, "TERN_PATH names '" + std::string(name) + "'; the paths are self, shm, tcp");
    }
  }
  return {};
}

// Builds one Process step by step; each step returns early with an error that says what to do.
class Wireup {
 public:
  Error run(std::shared_ptr<RankLock> lock, std::unique_ptr<Process>& result);

 private:
  Error begin(std::shared_ptr<RankLock> lock);
  Error share_memory();
  Error listen();
  Error put_card();

  std::unique_ptr<Process> process_;
  JobKey key_{};
  Allowed allowed_;
  std::unique_ptr<ShmNode> node_;
  std::unique_ptr<TcpPath> tcp_;
  bool one_node_ = false;  ///< the launcher says so
};

Error Wireup::begin(std::shared_ptr<RankLock> lock) {
  ProcessParts parts;
  if (Error error = parts.tunables.read_environment(environ)) return error;
  if (Error error = read_allowed(parts.tunables.path, allowed_)) return error;
  if (Error error = check_collective_tunable(parts.tunables.coll)) return error;
  Error error;
  parts.launcher = connect_launcher(error);
  if (error) return error;
  bool crowded = parts.tunables.oversubscribed == -1 ? node_share(*parts.launcher).oversubscribed()
                                                     : parts.tunables.oversubscribed == 1;
  parts.clock = std::make_unique<RealClock>();
  parts.idle = std::make_unique<RealIdle>(parts.tunables, crowded, lock.get());
  parts.lock = std::move(lock);
  parts.seed = parts.clock->now_ns() ^ (uint64_t(parts.launcher->rank()) << 32);
  process_ = std::make_unique<Process>(std::move(parts));
  Launcher& launcher = process_->launcher();
  one_node_ = int(launcher.local_ranks().size()) == launcher.size();
  if (launcher.size() > 1) return get_job_key(launcher, key_);
  return {};
}

Error Wireup::listen() {
  TcpOptions options;
  options.rank = PeerId(process_->world_rank());
  options.size = uint32_t(process_->world_size());
  options.key = key_;
  Launcher& launcher = process_->launcher();
  Error error;
  tcp_ = TcpPath::create(options, process_->tunables(), process_->clock(), process_->sink(),
                         [&launcher](PeerId peer, std::string& card) { return launcher.get(int(peer), kCardKey, card); },
                         error);
  return error;
}

Error Wireup::put_card() {
  if (Error error = listen()) return error;
  return process_->launcher().put(kCardKey, tcp_->card());
}

// Meets the ranks of this node, and opens sockets when that does not reach everybody.
Error Wireup::share_memory() {
  Launcher& launcher = process_->launcher();
  std::vector<int> local = launcher.local_ranks();
  bool tcp_now = allowed_.tcp && !(one_node_ && allowed_.shm);
  if (tcp_now) {
    if (Error error = put_card()) return error;
  }
  Error no_memory;
  if (allowed_.shm && local.size() > 1) {
    ShmSetup setup;
    setup.rank = process_->world_rank();
    setup.candidates = local;
    setup.job_key = key_;
    setup.ring_bytes = size_t(process_->tunables().shm_ring_bytes);
    setup.allow_attach = process_->tunables().shm_cma != 0;
    Error fence_error;
    node_ = ShmNode::create(setup, [&] { return launcher.fence(); }, no_memory);
    if (no_memory) node_.reset();
  } else if (Error error = launcher.fence()) {
    return error;
  }
  bool everybody = node_ && int(node_->members().size()) == launcher.size();
  if (tcp_now || everybody) return {};
  if (!allowed_.tcp) {
    return Error(ErrorClass::other, "not all ranks can share memory, and TERN_PATH allows no other path" +
                                        (no_memory ? ": " + std::string(no_memory.text()) : std::string()));
  }
  // Some ranks cannot share memory: every rank has found that out, so all of them come here.
  if (Error error = put_card()) return error;
  return launcher.fence();
}

Error Wireup::run(std::shared_ptr<RankLock> lock, std::unique_ptr<Process>& result) {
  if (Error error = begin(std::move(lock))) return error;
  if (process_->world_size() > 1) {
    if (Error error = share_memory()) return error;
  }
  process_->add_path(std::make_unique<SelfPath>(PeerId(process_->world_rank()), process_->sink()));
  const Tunables& tunables = process_->tunables();
  if (node_) {
    process_->share_node_memory(*node_);
    process_->add_path(std::make_unique<ShmPath>(std::move(node_), process_->sink(), tunables));
  }
  if (tcp_) process_->add_path(std::move(tcp_), process_->p2p().node_memory ? uint32_t(tunables.tcp_poll_interval) : 1);
  if (Error error = process_->start()) return error;
  result = std::move(process_);
  return {};
}

}  // namespace

std::unique_ptr<Process> connect_process(std::shared_ptr<RankLock> lock, Error& error) {
  std::unique_ptr<Process> process;
  error = Wireup().run(std::move(lock), process);
  return process;
}

}  // namespace tern
