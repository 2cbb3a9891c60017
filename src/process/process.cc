#include "process/process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "base/assert.h"
#include "base/limits.h"
#include "comm/context.h"
#include "fabric/shm/shm_path.h"
#include "p2p/core/endpoint.h"
#include "process/launch/cores.h"
#include "progress/event_thread.h"

namespace tern {
namespace {

// A poll of an open port costs a system call for each of its addresses; connecting jobs is not urgent.
constexpr uint32_t kPortInterval = 64;

}  // namespace

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
      make_event_port_(std::move(parts.make_event_port)) {
  progress_.set_wait_observer(&hang_watch_);
  hang_watch_.add_report([this] { return partitioned_.report(); });
  for (int rank : launcher_->local_ranks()) node_peers_.push_back(PeerId(rank));
}

Process::~Process() { end_helping(); }

// Peers that share memory copy for one another, and adapters move data by themselves. The other paths need this rank's
// processor for every message; and a thread helps only if it can sleep on them.
bool Process::some_peer_needs_helper() const {
  for (PeerId peer = 0; peer < PeerId(peers_.size()); ++peer) {
    if (peer == PeerId(world_rank())) continue;
    if (node_memory_ && std::binary_search(node_peers_.begin(), node_peers_.end(), peer)) continue;
    auto path = std::find_if(paths_.begin(), paths_.end(), [&](auto& p) { return p->reaches(peer); });
    if (path != paths_.end() && (*path)->properties().needs_cpu && (*path)->wait_fd() >= 0) return true;
  }
  return false;
}

void Process::begin_helping() {
  const std::string& progress = tunables_.progress;
  const bool polls_windows = windows_ && windows_->wants_polls();
  if (event_handler_ && polls_windows) event_handler_->poll_always();
  if (event_handler_ || (progress == "polling" && !polls_windows) || peers_.size() == 1) return;
  const bool serves_windows = windows_ && windows_->serves();
  if (progress == "auto" && !serves_windows && !some_peer_needs_helper()) return;
  // A rank that only receives should not take the core from one that computes.
  const bool every_arrival = progress == "event-driven";
  const bool always = every_arrival || (progress == "event" && !is_oversubscribed());
  const bool windows_only = progress == "polling";
  const auto needed = [this, always, windows_only] {
    if (windows_ && windows_->wants_polls()) return Need::always;
    if (windows_only) return Need::nothing;
    // Origins of one-sided operations do not wait until a target calls its library.
    if (always || progress_.has_work() || (windows_ && windows_->serves())) return Need::now;
    if (partitioned_.active()) return Need::now;
    return p2p_.pending();
  };
  try {
    const bool lingers = !is_oversubscribed();
    event_port_ = make_event_port_ ? make_event_port_(progress_) : std::make_unique<EventThread>(progress_, lingers);
    event_handler_ = std::make_unique<EventHandler>(progress_, *event_port_, needed,
                                                    is_oversubscribed() ? EventLimits::shared_cores() : EventLimits(),
                                                    every_arrival ? Arrivals::all : Arrivals::outside);
    event_port_->start(*event_handler_);
  } catch (const std::system_error& error) {
    event_handler_.reset();
    event_port_.reset();
    log_.warn("no event thread can be had: " + errno_text(error.code().value()) +
              ". Messages move only while this rank is inside MPI calls (as with TERN_PROGRESS=polling)");
    return;
  }
  lock_->set_successor(event_handler_.get());
  for (auto& path : paths_) path->set_helped(true);
}

void Process::end_helping() {
  if (!event_handler_) return;
  TERN_ASSERT(!lock_->in_round());
  lock_->set_successor(nullptr);
  const uint32_t depth = lock_->give_way();  // the thread may be waiting for the mutex
  event_port_->stop();
  lock_->come_back(depth);
  event_handler_.reset();
  event_port_.reset();
  for (auto& path : paths_) path->set_helped(false);
}

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
    engine.add_path(std::make_unique<ShmPath>(std::move(engine_nodes_[i]), engine.p2p.sink(), tunables_));
  }
  engine_nodes_.clear();
  p2p_.include(*engines_);
  environment_.engines = engines_.get();
  return engines_.get();
}

// Which path leads to whom: "shm to ranks 0-3, tcp to ranks 4-7".
void Process::log_paths() const {
  std::string text;
  for (auto& path : paths_) {
    std::string ranks;
    int many = 0;
    auto used = [&](int rank) {
      auto best = std::find_if(paths_.begin(), paths_.end(), [&](auto& p) { return p->reaches(PeerId(rank)); });
      return best != paths_.end() && *best == path;
    };
    for (int first = 0, next; first < world_size(); first = next) {
      next = first + 1;
      if (!used(first)) continue;
      while (next < world_size() && used(next)) ++next;
      ranks += (many ? "," : "") + std::to_string(first) + (next - first > 1 ? "-" + std::to_string(next - 1) : "");
      many += next - first;
    }
    if (many == 0) continue;
    text += (text.empty() ? "paths: " : "; ") + std::string(path->properties().name) +
            (many > 1 ? " to ranks " : " to rank ") + ranks;
  }
  log_.info(text);
}

void Process::add_path(std::unique_ptr<Path> path, uint32_t poll_interval) {
  p2p_.add_path(*path);
  add_path_below(std::move(path), poll_interval);
}

void Process::add_path_below(std::unique_ptr<Path> path, uint32_t poll_interval) {
  progress_.add(*path, poll_interval);
  if (event_handler_) path->set_helped(true);  // a path added later, to meet another job
  paths_.push_back(std::move(path));
}

void Process::share_node_memory(ShmNode& node) {
  node_memory_ = std::make_unique<NodeMemory>(node);
  node_peers_ = node.members();
  environment_.node_memory = node_memory_.get();
}

void Process::share_segments(std::unique_ptr<NodeSegments> segments, bool for_all) {
  node_segments_ = std::move(segments);
  environment_.node_segments = node_segments_.get();
  environment_.segments_for_all = for_all;
}

RankName Process::memory_name() const {
  const auto shared = [this](PeerId peer) { return node_segments_->shares(peer); };
  const auto first = node_segments_ ? std::find_if(node_peers_.begin(), node_peers_.end(), shared) : node_peers_.end();
  return peers_.name(first == node_peers_.end() ? PeerId(world_rank()) : *first);
}

Error Process::start() {
  PeerId me = PeerId(world_rank());
  for (PeerId peer = 0; peer < PeerId(world_size()); ++peer) {
    if (!p2p_.endpoints().path_to(peer)) {
      std::string names;
      for (auto& p : paths_) names += (names.empty() ? "" : ", ") + std::string(p->properties().name);
      return Error(ErrorClass::other, "no path reaches rank " + std::to_string(peer) + " from rank " +
                                          std::to_string(me) + " (paths in use: " + names +
                                          "). TERN_PATH restricts the paths; `tern-info` lists them");
    }
  }
  if (log_.wants(LogLevel::info)) log_paths();
  environment_.node_name = hash_of(node_name());
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

// "tcp to rank 1: 4096 bytes have not arrived; nothing was heard from its host for 14.0 s".
std::vector<std::string> Process::on_the_way() const {
  std::vector<InTransit> all;
  for (auto& path : paths_) path->tell_on_the_way(all);
  std::vector<std::string> lines;
  for (const InTransit& way : all) {
    const bool ours = way.peer < PeerId(world_size());
    std::string line = std::string(way.path) + " to " +
                       (ours ? "rank " + std::to_string(way.peer) : std::string("a process of another job")) + ": ";
    if (way.bytes == InTransit::kUnknown) line += "something has not arrived";
    else if (way.bytes != 0) line += std::to_string(way.bytes) + " bytes have not arrived";
    if (way.arriving) line += std::string(way.bytes != 0 ? ", and " : "") + "a message from there has come in part";
    if (way.silent_ms != InTransit::kUnknown) {
      char time[64];
      std::snprintf(time, sizeof time, "; nothing was heard from its host for %.1f s", double(way.silent_ms) * 1e-3);
      line += time;
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// Other threads may complete what this one waits for, other jobs may connect, files may be read in the background.
bool Process::only_messages_end_waits() const {
  const bool alone = peers_.size() == size_t(launcher_->size()) && !ports_;
  return alone && !files_ && !lock_->enabled();
}

Ports& Process::ports() {
  if (!ports_) {
    ports_ = std::make_unique<Ports>(tunables_, *clock_);
    progress_.add(*ports_, kPortInterval);
  }
  return *ports_;
}

Error Process::spawn(const SpawnRequest& request) {
  // One at a time; other threads' requests wait.
  progress_.wait_until([&] { return !spawning_; }, EndedBy::launcher);
  if (Error error = launcher_->begin_spawn(request)) return error;
  spawning_ = true;
  if (launcher_->spawn_descriptor() >= 0) progress_.watch(launcher_->spawn_descriptor());
  Error error;
  bool over = false;  // once true it is not asked again
  progress_.wait_until([&] { return over = over || launcher_->spawn_is_over(error); }, EndedBy::launcher);
  spawning_ = false;
  progress_.notify();
  return error;
}

io::Environment& Process::files() {
  if (!files_) {
    files_ = std::make_unique<io::Environment>(p2p_, tunables_, peers_, node_name(), [this] { return new_context(); });
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
