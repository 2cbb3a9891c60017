#include "p2p/engines.h"

#include <algorithm>
#include <utility>

#include "base/looks.h"

namespace tern {

namespace {
/// A wake-up takes some 10 us of a core, so looks at this distance take 1 % of it.
constexpr uint64_t kBetweenLooks_ns = 1'000'000;
}  // namespace

// Whether a short call has looked into the engine since the last question. `seen`: the number of looks at that time.
bool EnginePoll::short_calls_look(uint32_t& seen) const {
  const uint32_t before = std::exchange(seen, engine_.looks.load(std::memory_order_relaxed));
  return seen != before;
}

bool EnginePoll::is_closed() const { return !engine_.gate.is_open(); }

int EnginePoll::poll_path() {
  const int kept = keeps_any() ? kept_->deliver() : 0;
  return kept + path_.poll();
}

int EnginePoll::poll() {
  if (is_closed()) {
    // A look into the network asks the kernel: seldom where no call waits, and nothing is to be sent.
    const bool idle = !path_.properties().peek && !engine_.gate.is_visited() && !is_due();
    if (idle && ++skipped_ % limits_of(Look::part).looks != 0) return 0;
    const int done = poll_path();
    note_held();
    return done;
  }
  if (++skipped_ % limits_of(Look::part).looks != 0 || short_calls_look(seen_by_poll_)) return 0;
  const bool entered = engine_.gate.enter(std::this_thread::get_id());
  TERN_ASSERT(entered);  // it closes under the rank's lock only
  const int done = poll_path();
  (void)engine_.leaves_work();
  if (engine_.p2p.is_plain()) engine_.gate.leave();
  else engine_.gate.leave_closed();
  return done;
}

// What short calls have left to send is sent before the sleep: by a round, to which it is closed now.
bool EnginePoll::arm() {
  TERN_DEBUG_ASSERT(!armed_);
  if (engine_.gate.is_open() && !path_.hints().rung && short_calls_look(seen_by_arm_)) {
    deadline_ns_ = engine_.p2p.progress().clock().now_ns() + kBetweenLooks_ns;
    return true;
  }
  const bool was_open = engine_.gate.close(std::this_thread::get_id());
  armed_ = !keeps_any() && !(was_open && path_.unsent_hint() == Need::now) && path_.arm();
  return armed_;
}

// It may have opened meanwhile.
void EnginePoll::disarm() {
  deadline_ns_ = ~uint64_t{0};
  if (!std::exchange(armed_, false)) return;
  const bool entered = engine_.gate.enter(std::this_thread::get_id());
  path_.disarm();
  if (entered) engine_.gate.leave();
}

bool EnginePoll::arriving() const { return is_closed() && (keeps_any() || path_.arriving()); }

uint64_t EnginePoll::next_deadline_ns() const {
  return std::min(deadline_ns_, is_closed() ? path_.next_deadline_ns() : ~uint64_t{0});
}

void EnginePoll::begin(uint32_t interval) {
  if (!std::exchange(begun_, true)) engine_.p2p.progress().add(*this, interval);
}

void EnginePoll::note_closed() {
  if (!armed_) engine_.p2p.progress().note_unarmed();
}

Engine::Engine(uint32_t engine_number, ProgressEngine& progress, const Tunables& tunables, PeerId me,
               Counters& its_counters)
    : number(engine_number), counters(its_counters), p2p(progress, tunables, &its_counters), self(me, p2p.sink()) {
  p2p.add_path(self);
}

void Engine::add_path(PolledPath& polled, std::unique_ptr<Path> path, LaterSink* kept) {
  polled.path = std::move(path);
  polled.path->count_into(counters);
  p2p.add_path(*polled.path);
  polled.polling = std::make_unique<EnginePoll>(*this, *polled.path, kept);
}

void Engine::add_node_path(std::unique_ptr<Path> path) {
  TERN_ASSERT(!network.path);
  add_path(node, std::move(path), nullptr);
}

void Engine::add_network(EngineNetwork parts) {
  parts.sink->lead_to(p2p.sink());
  add_path(network, std::move(parts.path), parts.sink.get());
  network_parts = std::move(parts);
}

int Engine::poll_shortly(PeerId from) {
  if (!network.path) return p2p.poll_shortly(from);
  if (network_parts.sink->keeps_any()) return -1;
  return poll_network_shortly([&] { return p2p.poll_shortly(from); });
}

void Engine::begin(int members, bool far) {
  if (!std::exchange(begun_, true)) p2p.progress().add(self);
  if (members > 1 && node.path) node.polling->begin(1);
  TERN_ASSERT(!far || network.path);  // all members have agreed on it
  if (far) network.polling->begin(network_parts.poll_interval);
}

void Engine::end_visit() {
  gate.end_visit([this] {
    if (!p2p.is_plain()) return false;
    (void)leaves_work();
    return true;
  });
  each_path([](PolledPath& polled) { polled.polling->note_held(); });
}

void Engine::note_closed() {
  each_path([](PolledPath& polled) { polled.polling->note_closed(); });
}

Engines::Engines(uint32_t count, ProgressEngine& progress, const Tunables& tunables, PeerId me, Counters* counters) {
  for (uint32_t i = 0; i < count; ++i) all_.push_back(std::make_unique<Engine>(i, progress, tunables, me, counters[i]));
}

void Engines::close() {
  for (const auto& engine : all_) engine->close();
}

void Engines::retire() {
  for (const auto& engine : all_) engine->retire();
}

uint32_t Engines::calls() const {
  uint32_t sum = 0;
  for (const auto& engine : all_) sum += engine->calls();
  return sum;
}

void Engines::add_counters(Counters& sum) const {
  for (const auto& engine : all_) tern::add_counters(sum, engine->counters);
}

}  // namespace tern
