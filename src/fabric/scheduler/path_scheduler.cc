// Sending and confirming. See path_scheduler.h.
#include "fabric/scheduler/path_scheduler.h"

#include <algorithm>

#include "base/assert.h"
#include "fabric/poll_bounds.h"

namespace tern {

PathScheduler::PathScheduler(const PeerTable& table, const Tunables& tunables, Clock& clock, Sink& sink, const Log* log)
    : sink_(sink),
      log_(log),
      unconfirmed_{.hints = hints_,
                   .returned =
                       [this](Lane& lane) {
                         auto& pair = static_cast<Pair&>(lane);
                         if (pair.phase == Phase::resuming) [[unlikely]]
                           try_finish_resume(pair);
                       }},
      probes_(table, clock, notes_, hints_, uint64_t(tunables.path_failback_ms) * 1'000'000) {
  hints_.dormant = true;
}

void PathScheduler::add_path(Path& path) {
  TERN_ASSERT(paths_.size() < kMaxPaths);
  TERN_DEBUG_ASSERT(std::find(paths_.begin(), paths_.end(), &path) == paths_.end());
  path.set_replaceable();
  const PathProperties& its = path.properties();
  if (paths_.empty()) {
    properties_ = its;
    properties_.peek = false;
  }
  if (RemoteMemory* memory = path.remote_memory(); memory && !memory_) {
    memory_ = std::make_unique<ScheduledMemory>(
        *memory, [&path](Lane& lane) { return static_cast<Pair&>(lane).lane_in_use(path); });
  }
  properties_.needs_cpu = properties_.needs_cpu || its.needs_cpu;
  paths_.push_back(&path);
}

bool PathScheduler::reaches(PeerId peer) const {
  return std::any_of(paths_.begin(), paths_.end(), [&](Path* path) { return path->reaches(peer); });
}

PathScheduler::Pair& PathScheduler::pair_at(PeerId peer) {
  if (pairs_.size() <= peer) pairs_.resize(size_t(peer) + 1);
  TERN_DEBUG_ASSERT(!paths_.empty());
  if (!pairs_[peer]) {
    pairs_[peer] = std::make_unique<Pair>(peer, unconfirmed_);
    Pair& pair = *pairs_[peer];
    pair.routes.reserve(paths_.size());
    for (size_t i = 0; i < paths_.size(); ++i) {
      if (!paths_[i]->reaches(peer)) continue;
      pair.routes.push_back({.pair = &pair,
                             .path = paths_[i],
                             .lane = &paths_[i]->lane(peer),
                             .used = &used_,
                             .index = uint8_t(pair.routes.size()),
                             .path_bit = uint8_t(1u << i)});
    }
    TERN_DEBUG_ASSERT(!pair.routes.empty());
    for (Route& route : pair.routes) route.lane->owner = &route;
  }
  return *pairs_[peer];
}

// --- Sending

bool PathScheduler::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  auto& pair = static_cast<Pair&>(lane);
  if (!pair.ready() || !pair.unconfirmed.has_room(bytes)) return false;
  Route& route = pair.route_out();
  if (bytes > std::max(route.path->properties().eager_bytes, kAlwaysWholeBytes)) return false;
  route.note_use();
  const uint8_t confirmation = pair.arrivals.take_confirmation();
  const wire::Header told = wire::make_header(header.kind, header.source, header.context, header.tag, header.token,
                                              uint8_t(header.flags | confirmation), header.carried);
  if (!route.path->try_send(*route.lane, told, payload, bytes)) {
    pair.arrivals.give_back(confirmation);
    return false;
  }
  pair.unconfirmed.add_copy(header, payload, bytes);
  return true;
}

void PathScheduler::enqueue(SendOperation& operation) {
  auto& pair = static_cast<Pair&>(*operation.lane);
  operation.total_bytes = operation.payload.remaining();
  operation.header_sent = false;
  TERN_DEBUG_ASSERT(!operation.linked());
  if (pair.phase == Phase::lost) {
    unsendable_.push_back(&operation);
    hints_.dormant = false;
  } else if (pair.ready()) {
    forward(pair, operation);
  } else {
    pair.waiting.push_back(&operation);
  }
}

void PathScheduler::forward(Pair& pair, SendOperation& operation) {
  TERN_DEBUG_ASSERT(pair.phase == Phase::steady);
  operation.header_sent = true;
  hand_over(pair, pair.unconfirmed.add(operation));
}

// Hands a message to the lane in use, the first time or again.
void PathScheduler::hand_over(Pair& pair, SendOperation& carried) {
  Route& route = pair.route_out();
  carried.lane = route.lane;
  carried.header.flags |= pair.arrivals.take_confirmation();
  route.note_use();
  route.path->enqueue(carried);
}

bool PathScheduler::withdraw(SendOperation& operation) {
  auto& pair = static_cast<Pair&>(*operation.lane);
  // Forwarded operations are in no list of the scheduler.
  if (!operation.linked())
    return pair.phase != Phase::lost && pair.unconfirmed.withdraw(operation, *pair.route_out().path);
  if (pair.phase == Phase::lost || operation.header_sent) return false;  // complete, except for its `done`
  IntrusiveList<SendOperation>::remove(&operation);
  return true;
}

bool PathScheduler::work_due() const {
  return !unconfirmed_.finished.empty() || !unsendable_.empty() || !confirms_due_.empty();
}

// Operations that polls have to complete.
bool PathScheduler::has_own_work() const {
  return unconfirmed_.held != 0 || unsettled_ != 0 || !unconfirmed_.finished.empty() || !unsendable_.empty();
}

bool PathScheduler::has_unsent() const {
  return has_own_work() ||
         std::any_of(paths_.begin(), paths_.end(), [](const Path* path) { return path->has_unsent(); });
}

Need PathScheduler::unsent_hint() const {
  if (has_own_work()) return Need::now;
  Need need = Need::nothing;
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (used_ & (1u << i)) need = std::max(need, paths_[i]->unsent_hint());
  }
  return need;
}

// --- Work done in polls

int PathScheduler::poll() {
  int handled = 0;
  if (!confirms_due_.empty()) tell_arrived();
  while (SendOperation* operation = unconfirmed_.finished.pop_front()) {
    ++handled;
    operation->done(*operation, Error());
  }
  while (SendOperation* operation = unsendable_.pop_front()) {
    ++handled;
    const auto& pair = static_cast<Pair&>(*operation->lane);
    operation->done(*operation, Error(ErrorClass::proc_aborted, pair.trouble));
  }
  if (probes_.planned() && ++polls_ % kTimerPolls == 0) probes_.run(pairs_);
  hints_.dormant = !work_due() && !probes_.planned();
  return handled;
}

void PathScheduler::confirm_soon(Pair& pair) {
  if (pair.confirm_due) return;
  pair.confirm_due = true;
  TERN_DEBUG_ASSERT(std::find(confirms_due_.begin(), confirms_due_.end(), &pair) == confirms_due_.end());
  confirms_due_.push_back(&pair);
  hints_.dormant = false;
}

// Confirms alone if no message to the peer has done so meanwhile.
void PathScheduler::tell_arrived() {
  std::vector<Pair*> due;
  due.swap(confirms_due_);
  for (Pair* pair : due) {
    TERN_DEBUG_ASSERT(pair->confirm_due);
    pair->confirm_due = false;
    // After `leave` nothing more may use the old lane; `on_left` calls this again, a resume confirms by itself.
    if (pair->arrivals.all_told() || pair->phase != Phase::steady) continue;
    Route& route = pair->route_out();
    const wire::Header header =
        wire::make_lane_header(wire::LaneKind::confirm, 0, pair->incident, 0, pair->arrivals.arrived());
    if (route.path->try_send(*route.lane, header, nullptr, 0)) {
      pair->arrivals.tell_all();
    } else {
      pair->confirm_due = true;
      confirms_due_.push_back(pair);
    }
  }
}

// --- What the paths have beside messages

TupleQueues* PathScheduler::tuple_queues() {
  TupleQueues* best = tuples_ || paths_.empty() ? nullptr : paths_.front()->tuple_queues();
  if (best && best->tuple_properties().ends_with_lane) {
    tuples_ = std::make_unique<ScheduledTuples>(*best, [this](Lane& lane) {
      auto& pair = static_cast<Pair&>(lane);
      Lane* in_use = pair.lane_in_use(*paths_.front());
      if (in_use) pair.queues = true;
      return in_use;
    });
  }
  return tuples_.get();
}

}  // namespace tern
