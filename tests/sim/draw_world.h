// What random programs of few ranks draw of their world: how many ranks, on how many nodes, over which network, and how
// much it delays and reorders.
#pragma once

#include "base/rng.h"
#include "sim/world.h"

namespace tern::sim {

inline void draw_few_ranks(Rng& rng, WorldOptions& options) {
  options.ranks = uint32_t(2 + rng.below(4));
  options.ranks_per_node = uint32_t(1 + rng.below(options.ranks));
  options.udp = rng.below(3) == 0;
  options.shm = rng.below(3) == 0;
  options.faults.early_in_8 = uint32_t(rng.below(3));
  options.faults.delay_in_1024 = uint32_t(rng.below(100));
  options.faults.start_skew_ns = 1 + rng.below(500'000);
}

}  // namespace tern::sim
