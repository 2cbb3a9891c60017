// Sending, confirming, and the memory of peers. See path_scheduler.h.
#include "fabric/scheduler/path_scheduler.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "fabric/poll_bounds.h"

namespace tern {
namespace {

// A message of at most so many bytes is copied when its path has taken it, so that the send completes. A longer one
// keeps the sender's memory until it is confirmed, which takes a round trip; copying 64 KiB takes as long (6.4 us).
constexpr size_t kCopyBytes = 64 * 1024;
// Memory of longer copies is used again. (malloc gives such blocks back to the kernel: 64 KiB over TCP took 7 %
// longer.)
constexpr size_t kSpareBytes = 8 * 1024;
constexpr size_t kMaxSpare = 4;
// Copies for one peer, bounds memory: sixteen of the largest. Beyond this, operations hold their memory.
constexpr size_t kMaxCopiedBytes = 1024 * 1024;
// The receiver confirms at the latest after so many messages (a confirmation alone costs both sides as much as 50 small
// messages; the records of 256 are 80 KiB, which stay in the sender's cache) and bytes (half of what a sender may keep
// as copies, so that a stream never waits for the confirmation).
constexpr uint32_t kConfirmMessages = 256;
constexpr size_t kConfirmBytes = kMaxCopiedBytes / 2;

}  // namespace

PathScheduler::PathScheduler(const PeerTable& table, const Tunables& tunables, Clock& clock, Sink& sink, const Log* log)
    : table_(table),
      first_probe_ns_(uint64_t(tunables.path_failback_ms) * 1'000'000),
      clock_(clock),
      sink_(sink),
      log_(log) {
  hints_.dormant = true;
}

PathScheduler::~PathScheduler() {
  for (auto& pair : pairs_) {
    while (pair && pair->kept.front()) recycle(*pair->kept.pop_front());
  }
}

void PathScheduler::add_path(Path& path) {
  TERN_ASSERT(paths_.size() < kMaxPaths);
  path.set_replaceable();
  const PathProperties& its = path.properties();
  if (paths_.empty()) {
    properties_ = its;
    properties_.peek = false;
  }
  if (RemoteMemory* memory = path.remote_memory(); memory && !memory_) {
    memory_ = memory;
    memory_path_ = uint8_t(paths_.size());
    remote_properties_ = memory->remote_properties();
    remote_properties_.puts_before_messages = false;
    remote_properties_.ordered_writes = false;
  }
  properties_.needs_cpu = properties_.needs_cpu || its.needs_cpu;
  TERN_DEBUG_ASSERT(std::find(paths_.begin(), paths_.end(), &path) == paths_.end());
  paths_.push_back(&path);
}

bool PathScheduler::reaches(PeerId peer) const {
  return std::any_of(paths_.begin(), paths_.end(), [&](Path* path) { return path->reaches(peer); });
}

PathScheduler::Pair& PathScheduler::pair_at(PeerId peer) {
  if (pairs_.size() <= peer) pairs_.resize(size_t(peer) + 1);
  TERN_DEBUG_ASSERT(!paths_.empty());
  if (!pairs_[peer]) {
    pairs_[peer] = std::make_unique<Pair>(peer, *this);
    Pair& pair = *pairs_[peer];
    pair.routes.reserve(paths_.size());
    for (size_t i = 0; i < paths_.size(); ++i) {
      if (!paths_[i]->reaches(peer)) continue;
      pair.routes.push_back({.pair = &pair,
                             .path = paths_[i],
                             .lane = &paths_[i]->lane(peer),
                             .index = uint8_t(pair.routes.size()),
                             .path_bit = uint8_t(1u << i)});
    }
    TERN_DEBUG_ASSERT(!pair.routes.empty());
    for (Route& route : pair.routes) route.lane->owner = &route;
  }
  return *pairs_[peer];
}

// --- Sending

// How many of the peer's messages the next message to it confirms.
uint8_t PathScheduler::take_confirmation(Pair& pair) {
  const uint64_t count = std::min<uint64_t>(pair.arrived - pair.told, wire::kMaxConfirmed);
  if (count == 0) return 0;
  pair.told += count;
  TERN_ASSERT(pair.told <= pair.arrived);
  if (pair.told == pair.arrived) pair.untold_bytes = 0;
  return uint8_t(count << wire::kConfirmShift);
}

PathScheduler::Kept& PathScheduler::keep(Pair& pair, const wire::Header& header, size_t bytes) {
  Kept& kept = *kept_pool_.take();
  kept.pair = &pair;
  kept.header = header;
  kept.bytes = bytes;
  TERN_DEBUG_ASSERT(!kept.user && !kept.in_path && !kept.confirmed && !kept.copied && !kept.heap);
  pair.kept.push_back(&kept);
  return kept;
}

void PathScheduler::Kept::path_is_done(SendOperation& operation, Error error) {
  Kept& kept = *static_cast<Inner&>(operation).kept;
  kept.pair->scheduler.inner_done(kept, std::move(error));
}

// It is in no list.
void PathScheduler::recycle(Kept& kept) {
  TERN_ASSERT(!kept.linked());
  if (kept.heap && kept.bytes > kSpareBytes && kept.bytes <= kCopyBytes && spare_.size() < kMaxSpare)
    spare_.push_back(std::move(kept.heap));
  kept.heap = nullptr;
  kept.user = nullptr;
  kept.in_path = kept.confirmed = kept.copied = false;
  kept_pool_.give_back(&kept);
}

std::byte* PathScheduler::memory_for_copy(Kept& kept) {
  TERN_DEBUG_ASSERT(!kept.heap);
  if (kept.bytes > kSpareBytes && kept.bytes <= kCopyBytes) {
    if (spare_.empty()) {
      kept.heap = std::make_unique_for_overwrite<std::byte[]>(kCopyBytes);
    } else {
      kept.heap = std::move(spare_.back());
      spare_.pop_back();
    }
  } else if (kept.bytes > Kept::kInlineBytes) {
    kept.heap = std::make_unique_for_overwrite<std::byte[]>(kept.bytes);
  }
  return kept.data();
}

bool PathScheduler::try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) {
  auto& pair = static_cast<Pair&>(lane);
  if (!ready(pair) || pair.copied_bytes + bytes > kMaxCopiedBytes) return false;
  Route& route = pair.routes[pair.out];
  TERN_DEBUG_ASSERT(pair.out < pair.routes.size() && pair.in < pair.routes.size());
  if (bytes > std::max(route.path->properties().eager_bytes, kAlwaysWholeBytes)) return false;
  used_ |= route.path_bit;
  const uint8_t confirmation = take_confirmation(pair);
  wire::Header told = wire::make_header(header.kind, header.source, header.context, header.tag, header.token,
                                        uint8_t(header.flags | confirmation), header.carried);
  if (!route.path->try_send(*route.lane, told, payload, bytes)) {
    pair.told -= confirmation >> wire::kConfirmShift;
    return false;
  }
  Kept& kept = keep(pair, header, bytes);
  std::byte* copy = memory_for_copy(kept);
  if (bytes != 0) std::memcpy(copy, payload, bytes);
  kept.copied = true;
  pair.copied_bytes += bytes;
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
  } else if (ready(pair)) {
    forward(pair, operation);
  } else {
    pair.waiting.push_back(&operation);
  }
}

void PathScheduler::forward(Pair& pair, SendOperation& operation) {
  TERN_ASSERT(!operation.linked());
  operation.header_sent = true;
  TERN_DEBUG_ASSERT(pair.phase == Phase::steady);
  Kept& kept = keep(pair, operation.header, operation.total_bytes);
  kept.user = &operation;
  kept.original = operation.payload;
  ++held_;
  hand_over(kept);
}

// Hands a message to the lane in use, the first time or again.
void PathScheduler::hand_over(Kept& kept) {
  Pair& pair = *kept.pair;
  Route& route = pair.routes[pair.out];
  TERN_ASSERT(!kept.in_path && !kept.inner.linked() && (kept.copied || kept.user));
  kept.inner.lane = route.lane;
  kept.inner.header = kept.header;
  kept.inner.header.flags |= take_confirmation(pair);
  kept.inner.header_sent = false;
  kept.inner.payload = kept.copied ? Cursor::bytes(kept.data(), kept.bytes) : kept.original;
  kept.in_path = true;
  ++pair.in_path;
  used_ |= route.path_bit;
  route.path->enqueue(kept.inner);
}

// A path has finished with a message: it has taken all of it, or its lane is lost.
void PathScheduler::inner_done(Kept& kept, Error error) {
  Pair& pair = *kept.pair;
  TERN_ASSERT(kept.in_path && pair.in_path != 0);
  kept.in_path = false;
  --pair.in_path;
  if (kept.confirmed) {
    release(kept);
  } else if (!error && kept.user && kept.bytes <= kCopyBytes && pair.copied_bytes < kMaxCopiedBytes) {
    copy_of(kept);
  }
  if (pair.phase == Phase::resuming) [[unlikely]]
    try_finish_resume(pair);
}

// Copies the payload so that the send completes.
void PathScheduler::copy_of(Kept& kept) {
  TERN_DEBUG_ASSERT(kept.user && !kept.copied && !kept.in_path);
  kept.original.pack(memory_for_copy(kept), kept.bytes);
  kept.copied = true;
  kept.pair->copied_bytes += kept.bytes;
  TERN_ASSERT(held_ != 0);
  --held_;
  finish(*std::exchange(kept.user, nullptr));
}

// The message has arrived. If its path still holds the operation, the operation stays until the path returns it.
void PathScheduler::release(Kept& kept) {
  if (kept.in_path) {
    kept.confirmed = true;
    return;
  }
  TERN_ASSERT(!kept.copied || kept.pair->copied_bytes >= kept.bytes);
  if (kept.copied) kept.pair->copied_bytes -= kept.bytes;
  if (kept.user) {
    TERN_ASSERT(held_ != 0);
    --held_;
    finish(*kept.user);
  }
  recycle(kept);
}

void PathScheduler::confirm_up_to(Pair& pair, uint64_t count) {
  TERN_DEBUG_ASSERT(!pair.kept.front() || pair.kept.front()->pair == &pair);
  for (; pair.confirmed < count && pair.kept.front(); ++pair.confirmed) release(*pair.kept.pop_front());
}

bool PathScheduler::withdraw(SendOperation& operation) {
  auto& pair = static_cast<Pair&>(*operation.lane);
  if (pair.phase == Phase::lost || !operation.linked()) {
    // Forwarded operations are in no list of the scheduler: search for the one that carries it.
    for (Kept* kept = pair.kept.back(); pair.phase != Phase::lost && kept; kept = pair.kept.previous(kept)) {
      if (kept->user != &operation) continue;
      if (!kept->in_path || !pair.routes[pair.out].path->withdraw(kept->inner)) return false;
      IntrusiveList<Kept>::remove(kept);
      TERN_DEBUG_ASSERT(pair.in_path != 0 && held_ != 0);
      --pair.in_path;
      --held_;
      recycle(*kept);
      operation.header_sent = false;
      return true;
    }
    return false;
  }
  if (operation.header_sent) return false;  // complete, except for its `done`
  IntrusiveList<SendOperation>::remove(&operation);
  return true;
}

bool PathScheduler::has_unsent() const {
  return held_ != 0 || unsettled_ != 0 || !finished_.empty() || !unsendable_.empty() ||
         std::any_of(paths_.begin(), paths_.end(), [](const Path* path) { return path->has_unsent(); });
}

Need PathScheduler::unsent_hint() const {
  if (held_ != 0 || unsettled_ != 0 || !finished_.empty() || !unsendable_.empty()) return Need::now;
  Need need = Need::nothing;
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (used_ & (1u << i)) need = std::max(need, paths_[i]->unsent_hint());
  }
  return need;
}

// --- Work done in polls

bool PathScheduler::work_due() const { return !finished_.empty() || !unsendable_.empty() || !confirms_due_.empty(); }

int PathScheduler::poll() {
  int handled = 0;
  if (!confirms_due_.empty()) tell_arrived();
  while (SendOperation* operation = finished_.pop_front()) {
    ++handled;
    operation->done(*operation, Error());
  }
  while (SendOperation* operation = unsendable_.pop_front()) {
    ++handled;
    const auto& pair = static_cast<Pair&>(*operation->lane);
    operation->done(*operation, Error(ErrorClass::proc_aborted, pair.trouble));
  }
  if (next_probe_ns_ != ~uint64_t{0} && ++polls_ % kTimerPolls == 0) run_probes(clock_.now_ns());
  hints_.dormant = !work_due() && next_probe_ns_ == ~uint64_t{0};
  return handled;
}

// Sends a message of the scheduler's own, behind everything sent on that lane.
void PathScheduler::post(Route& route, wire::LaneKind kind, uint8_t path, uint32_t incarnation, uint64_t count) {
  used_ |= route.path_bit;
  const wire::Header header = wire::make_lane_header(kind, path, route.pair->incident, incarnation, count);
  if (route.path->try_send(*route.lane, header, nullptr, 0)) return;
  Note* note = notes_.create();
  TERN_DEBUG_ASSERT(route.pair && route.lane);
  note->owner = this;
  note->lane = route.lane;
  note->header = header;
  note->done = [](SendOperation& operation, Error) {
    auto& self = static_cast<Note&>(operation);
    self.owner->notes_.destroy(&self);
  };
  route.path->enqueue(*note);
}

void PathScheduler::count_arrival(Pair& pair, size_t bytes) {
  ++pair.arrived;
  TERN_DEBUG_ASSERT(pair.told < pair.arrived && pair.phase != Phase::lost);
  pair.untold_bytes += bytes;
  // A longer one holds its sender's memory.
  const bool soon = bytes > kCopyBytes || pair.untold_bytes >= kConfirmBytes;
  if (soon || pair.arrived - pair.told >= kConfirmMessages) confirm_soon(pair);
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
    if (pair->told == pair->arrived || pair->phase != Phase::steady) continue;
    Route& route = pair->routes[pair->out];
    const wire::Header header = wire::make_lane_header(wire::LaneKind::confirm, 0, pair->incident, 0, pair->arrived);
    if (route.path->try_send(*route.lane, header, nullptr, 0)) {
      TERN_DEBUG_ASSERT(pair->told <= pair->arrived);
      pair->told = pair->arrived;
      pair->untold_bytes = 0;
    } else {
      pair->confirm_due = true;
      confirms_due_.push_back(pair);
    }
  }
}

// --- RemoteMemory of the peers

bool PathScheduler::moves_memory(Lane& lane) const {
  auto& pair = static_cast<Pair&>(lane);
  return pair.phase == Phase::steady && pair.routes[pair.out].path == paths_[memory_path_];
}

// The lane that moves the peer's memory; null: it is not in use.
Lane* PathScheduler::memory_lane(Lane& lane) {
  if (!moves_memory(lane)) return nullptr;
  const Route& route = in_use(lane);
  used_ |= route.path_bit;
  return route.lane;
}

TupleQueues* PathScheduler::tuple_queues() {
  TupleQueues* best = tuples_ || paths_.empty() ? nullptr : paths_.front()->tuple_queues();
  if (best && best->tuple_properties().ends_with_lane) {
    tuples_ = std::make_unique<ScheduledTuples>(*best, [this](Lane& lane) -> Lane* {
      auto& pair = static_cast<Pair&>(lane);
      Route& route = pair.routes[pair.out];
      if (pair.phase != Phase::steady || pair.out != 0 || route.path != paths_.front()) return nullptr;
      pair.queues = true;
      TERN_DEBUG_ASSERT(pair.routes[0].state == RouteState::up);
      used_ |= route.path_bit;
      return route.lane;
    });
  }
  return tuples_.get();
}

namespace {
Error no_memory_now() { return Error(ErrorClass::other, "the lane that moves memory is not in use"); }
}  // namespace

void PathScheduler::get(TransferOperation& operation) {
  Lane* lane = memory_lane(*operation.lane);
  if (!lane) return operation.done(operation, no_memory_now());
  operation.lane = lane;
  memory_->get(operation);
}

void PathScheduler::put(TransferOperation& operation) {
  Lane* lane = memory_lane(*operation.lane);
  if (!lane) return operation.done(operation, no_memory_now());
  operation.lane = lane;
  memory_->put(operation);
}

void PathScheduler::atomic(AtomicOperation& operation) {
  Lane* lane = memory_lane(*operation.lane);
  if (!lane) return operation.done(operation, no_memory_now());
  operation.lane = lane;
  memory_->atomic(operation);
}

void PathScheduler::flush(FlushOperation& operation) {
  Lane* lane = memory_lane(*operation.lane);
  if (!lane) return operation.done(operation, no_memory_now());
  operation.lane = lane;
  memory_->flush(operation);
}

}  // namespace tern
