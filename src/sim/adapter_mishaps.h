// AdapterMishaps: whether a fault of a simulated adapter happens now. Thread rule: as AdapterNode.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "sim/adapter_model.h"

namespace tern::sim {

class AdapterMishaps {
 public:
  /// Both outlive this.
  AdapterMishaps(const AdapterFaults& faults, Rng& rng) : faults_(faults), rng_(rng) {}

  /// For a while there seem to be no receives.
  bool storm(uint64_t now_ns) {
    if (storm_until_ns_ > now_ns) return true;
    if (!rng_.chance(faults_.storm_in_1024, 1024)) return false;
    storm_until_ns_ = now_ns + rng_.below(faults_.storm_ns + 1);
    return true;
  }
  /// Of XRC; a third of them strike as a message arrives, others before it and behind it.
  bool connection_fails() {
    const uint32_t often = faults_.xrc_error_in_1024;
    return often != 0 && rng_.chance(often, 3 * 1024);
  }
  /// This connect or post of an XRC queue pair.
  bool refuses_xrc() {
    const uint32_t often = faults_.xrc_refusal_in_1024;
    return often != 0 && rng_.chance(often, 1024);
  }

 private:
  const AdapterFaults& faults_;
  Rng& rng_;
  uint64_t storm_until_ns_ = 0;
};

}  // namespace tern::sim
