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

int EnginePoll::poll() {
  if (!engine_.gate.is_open()) return path_.poll();
  if (++skipped_ % limits_of(Look::part).looks != 0 || short_calls_look(seen_by_poll_)) return 0;
  const bool entered = engine_.gate.enter(std::this_thread::get_id());
  TERN_ASSERT(entered);  // it closes under the rank's lock only
  const int done = path_.poll();
  if (engine_.p2p.is_plain()) engine_.gate.leave();
  else engine_.gate.leave_closed();
  return done;
}

bool EnginePoll::arm() {
  TERN_DEBUG_ASSERT(!armed_);
  if (engine_.gate.is_open() && !path_.hints().rung && short_calls_look(seen_by_arm_)) {
    deadline_ns_ = engine_.p2p.progress().clock().now_ns() + kBetweenLooks_ns;
    return true;
  }
  engine_.gate.close(std::this_thread::get_id());
  armed_ = path_.arm();
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

bool EnginePoll::arriving() const { return !engine_.gate.is_open() && path_.arriving(); }

uint64_t EnginePoll::next_deadline_ns() const {
  return std::min(deadline_ns_, engine_.gate.is_open() ? ~uint64_t{0} : path_.next_deadline_ns());
}

void EnginePoll::begin() {
  if (!std::exchange(begun_, true)) engine_.p2p.progress().add(*this);
}

void EnginePoll::note_closed() {
  if (!armed_) engine_.p2p.progress().note_unarmed();
}

Engine::Engine(uint32_t engine_number, ProgressEngine& progress, const Tunables& tunables, PeerId me,
               Counters& its_counters)
    : number(engine_number), counters(its_counters), p2p(progress, tunables, &its_counters), self(me, p2p.sink()) {
  p2p.add_path(self);
}

void Engine::add_path(std::unique_ptr<Path> path) {
  others = std::move(path);
  others->count_into(counters);
  p2p.add_path(*others);
  polling = std::make_unique<EnginePoll>(*this, *others);
}

void Engine::begin(int members) {
  if (!std::exchange(begun_, true)) p2p.progress().add(self);
  if (members > 1 && polling) polling->begin();
}

Engines::Engines(uint32_t count, ProgressEngine& progress, const Tunables& tunables, PeerId me, Counters* counters) {
  for (uint32_t i = 0; i < count; ++i) all_.push_back(std::make_unique<Engine>(i, progress, tunables, me, counters[i]));
}

void Engines::close() {
  for (const auto& engine : all_) {
    if (engine->gate.close(std::this_thread::get_id()) && engine->polling) engine->polling->note_closed();
  }
}

void Engines::retire() {
  for (const auto& engine : all_) engine->retire();
}

void Engines::add_counters(Counters& sum) const {
  for (const auto& engine : all_) tern::add_counters(sum, engine->counters);
}

}  // namespace tern
