#include "sim/rank_time.h"

#include <algorithm>

#include "progress/engine.h"

namespace tern::sim {

void SimIdle::relax(ProgressEngine& engine, Wait&, const Condition& done) {
  strand_.catch_up();
  if (!engine.arm_all()) return;
  if (done()) {
    engine.disarm_all();
    return;
  }
  uint64_t deadline = engine.next_deadline_ns();
  if (early_in_8_ != 0 && rng_.chance(early_in_8_, 8)) {
    // Early wake-ups must not keep a deadlocked world alive for ever: only if another event is to come.
    if (strand_.scheduler().pending()) deadline = std::min(deadline, strand_.now_ns() + 1 + rng_.below(2000));
  }
  strand_.block(deadline, "waiting for messages");
  engine.disarm_all();
}

}  // namespace tern::sim
