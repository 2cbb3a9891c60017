#include "fabric/rdma/channels/find_map.h"

#include <algorithm>

namespace tern {

FoundMap find_map(std::span<const uint32_t> counts, const ChannelCosts& costs, const MapLimits& limits,
                  std::span<const uint8_t> paired) {
  const int64_t s = limits.ring_entries, unit = 2 * s;
  const size_t max_rings = std::min<size_t>(counts.size(), limits.max_rings);
  const size_t max_connected = limits.dc ? limits.max_connected : max_rings;
  FoundMap best;
  // What the i-th peer that is not paired adds by being connected instead of not, summed up to m; the best m so far.
  int64_t connected_sum = 0, best_connected_sum = 0;
  uint32_t unpaired = 0, best_connected = 0;
  int64_t ring_sum = 0, paired_sum = 0;
  for (size_t l = 1; l <= max_rings; ++l) {
    const int64_t n = counts[l - 1];
    ring_sum += unit * (n * costs.dc_ring_gain - costs.dc_ring_setup) - 2 * n * costs.credit;
    const int64_t by_connecting = unit * gain_of_connecting(n, costs);
    if (!paired.empty() && paired[l - 1]) {
      paired_sum += std::max<int64_t>(0, by_connecting);
    } else if (unpaired < max_connected) {
      ++unpaired;
      connected_sum += by_connecting;
      if (connected_sum > best_connected_sum || !limits.dc) {
        best_connected_sum = connected_sum;
        best_connected = unpaired;
      }
    }
    const int64_t polls = int64_t(counts[0]) * int64_t(l) * s * costs.empty_poll;
    const int64_t gain = best_connected_sum + paired_sum + ring_sum - polls;
    if (gain > best.gain) best = {uint32_t(l), best_connected, gain};
  }
  return best;
}

int64_t gain_of_map(std::span<const uint32_t> connected, std::span<const uint32_t> others, const ChannelCosts& costs,
                    const MapLimits& limits) {
  const int64_t s = limits.ring_entries, unit = 2 * s;
  int64_t gain = 0, most = 0;
  for (uint32_t n : connected) {
    gain += unit * n * costs.rc_ring_gain - 2 * n * costs.credit;
    most = std::max<int64_t>(most, n);
  }
  for (uint32_t n : others) {
    gain += unit * n * costs.dc_ring_gain - 2 * n * costs.credit;
    most = std::max<int64_t>(most, n);
  }
  return gain - most * int64_t(connected.size() + others.size()) * s * costs.empty_poll;
}

}  // namespace tern
