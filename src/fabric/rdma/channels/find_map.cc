#include "fabric/rdma/channels/find_map.h"

#include <algorithm>
#include <vector>

namespace tern {

namespace {

// What the peers after the l-th gain by connected queue pairs without rings.
class WithoutRing {
 public:
  WithoutRing(std::span<const uint32_t> counts, const ChannelCosts& costs, int64_t unit)
      : gain_(unit * costs.connected_gain), setup_(unit * costs.rc_ring_setup), sums_(counts.size() + 1) {
    for (size_t i = 0; i < counts.size(); ++i) {
      sums_[i + 1] = sums_[i] + counts[i];
      if (counts[i] * gain_ > setup_) worth_ = i + 1;
    }
  }
  /// How many of them, at most `left`.
  uint32_t number(size_t rings, uint32_t left) const {
    return uint32_t(std::min<size_t>(left, worth_ > rings ? worth_ - rings : 0));
  }
  int64_t gain(size_t rings, uint32_t number) const {
    return (sums_[rings + number] - sums_[rings]) * gain_ - number * setup_;
  }

 private:
  const int64_t gain_, setup_;
  std::vector<int64_t> sums_;  ///< messages of the first i peers
  size_t worth_ = 0;           ///< peers, from the first on, for which the channel pays
};

}  // namespace

FoundMap find_map(std::span<const uint32_t> counts, const ChannelCosts& costs, const MapLimits& limits,
                  std::span<const uint8_t> paired) {
  const int64_t s = limits.ring_entries, unit = 2 * s;
  const size_t max_rings = std::min<size_t>(counts.size(), limits.max_rings);
  const WithoutRing without(counts, costs, unit);
  FoundMap best;
  // What the i-th peer that is not paired adds by being connected instead of not, summed up to m; the best m so far.
  int64_t connected_sum = 0, best_connected_sum = 0;
  uint32_t unpaired = 0, best_connected = 0;
  int64_t ring_sum = 0, paired_sum = 0;
  for (size_t l = 0; l <= max_rings; ++l) {
    if (l != 0) {
      const int64_t n = counts[l - 1];
      ring_sum += unit * (n * costs.dc_ring_gain - costs.dc_ring_setup) - 2 * n * costs.credit;
      const int64_t by_connecting = unit * gain_of_connecting(n, costs);
      if (!paired.empty() && paired[l - 1]) {
        paired_sum += limits.dc ? std::max<int64_t>(0, by_connecting) : by_connecting;
      } else if (unpaired < limits.max_connected) {
        ++unpaired;
        connected_sum += by_connecting;
        if (connected_sum > best_connected_sum || !limits.dc) {
          best_connected_sum = connected_sum;
          best_connected = unpaired;
        }
      } else if (!limits.dc) {
        break;
      }
    }
    const int64_t polls = l != 0 ? int64_t(counts[0]) * int64_t(l) * s * costs.empty_poll : 0;
    const uint32_t more = without.number(l, limits.max_connected - best_connected);
    const int64_t gain = best_connected_sum + paired_sum + ring_sum - polls + without.gain(l, more);
    if (gain > best.gain) best = {uint32_t(l), best_connected, more, gain};
  }
  return best;
}

int64_t gain_of_map(std::span<const uint32_t> connected, std::span<const uint32_t> others,
                    std::span<const uint32_t> without_ring, const ChannelCosts& costs, const MapLimits& limits) {
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
  for (uint32_t n : without_ring) gain += unit * n * costs.connected_gain;
  return gain - most * int64_t(connected.size() + others.size()) * s * costs.empty_poll;
}

}  // namespace tern
