#include "p2p/engines.h"

namespace tern {

Engines::Engines(uint32_t count, ProgressEngine& progress, const Tunables& tunables, PeerId me, Counters* counters) {
  for (uint32_t i = 0; i < count; ++i) all_.push_back(std::make_unique<Engine>(i, progress, tunables, me, counters[i]));
}

void Engines::close() {
  for (const auto& engine : all_) engine->gate.close(std::this_thread::get_id());
}

void Engines::retire() {
  for (const auto& engine : all_) engine->retire();
}

void Engines::add_counters(Counters& sum) const {
  for (const auto& engine : all_) tern::add_counters(sum, engine->counters);
}

}  // namespace tern
