#include "sim/rank_time.h"

#include <algorithm>

namespace tern::sim {

void SimWait::sleep(uint64_t deadline_ns, uint64_t) {
  if (woken_) return;
  if (early_in_8_ != 0 && rng_.chance(early_in_8_, 8)) {
    // Early wake-ups must not keep a deadlocked world alive for ever: only if another event is to come.
    if (strand_.scheduler().pending()) deadline_ns = std::min(deadline_ns, strand_.now_ns() + 1 + rng_.below(2000));
  }
  strand_.block(deadline_ns, "waiting for messages");
}

void SimWait::sleep_beside_helper(uint64_t deadline_ns, uint64_t) {
  while (!woken_) {
    if (!station_.serve_sleeper(deadline_ns)) return;
  }
  station_.charge_wake();
}

}  // namespace tern::sim
