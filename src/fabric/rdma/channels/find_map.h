// FIND_MAP: which peers' messages should come by rings, and which of those over connected queue pairs, so that the
// receiver gains the most compared to receiving everything by the base channel.
//
// The l peers that send most get rings, the first m of them connected ones. n_i: messages of the i-th peer, descending:
//
//   gain(l, m) = sum(i <= m) n_i r + sum(m < i <= l) n_i d     a message is cheaper
//              - sum(i <= l) n_i c/s                           credit messages
//              - n_1 l/2 p                                     polling other rings meanwhile
//              - m rho - (l - m) delta                         making the channels
//
// which is A(m) + B(l), so one pass with the running maximum of A over m <= min(l, h) finds the result of the paper's
// doubly nested loop. (There m may exceed l, which means nothing.)
//
// A queue pair carries both directions. So peers to which this rank itself sends over a connected queue pair (`paired`)
// add no active queue pair when their messages come by it, too: they do not count against h, which the paper lowers by
// the channels that exist (section 3.2). The m others are then the first of those that are not paired.
//
// Beyond the paper: the k peers after the l-th get a connected queue pair without a ring, where that alone gains
// something (k n_i g - k rho; datagrams as the base channel). They share h with the connected rings. Where the base
// channel is not DC all rings are connected.
//
// Source: Takagi et al. 2015, Figure 6, Appendix A and Table 2. Gains in units of 1/(2s) ps, where s is the number of
// entries of a ring, so that all is exact in integers (counts below 2^31). Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <span>

namespace tern {

/// Picoseconds. The defaults are the paper's, of Connect-IB and DC.
struct ChannelCosts {
  int64_t dc_ring_gain = 100'000;      ///< d: of a message by dc_rdma instead of the base channel
  int64_t rc_ring_gain = 150'000;      ///< r: by rc_rdma
  int64_t empty_poll = 10'000;         ///< p: an empty poll of a ring
  int64_t credit = 300'000;            ///< c: sending a credit message
  int64_t dc_ring_setup = 10'000'000;  ///< delta
  int64_t rc_ring_setup = 10'000'000;  ///< rho, less than it takes, because queue pairs are reused
  int64_t threshold = 25'000;          ///< gamma: gain of a message below which nothing is changed
  int64_t connected_gain = 0;          ///< by rc instead of the base channel; at most r - d where the base is DC
};

/// Where messages begin by XRC, which costs what a connected queue pair for each rank costs (Takagi et al. 2015, 2.1):
/// a ring gains what it gains against the completion queue.
inline constexpr ChannelCosts kCostsAgainstXrc{.dc_ring_gain = 0, .rc_ring_gain = 100'000, .dc_ring_setup = 0};

/// Where messages begin by datagrams (ud): measured on the simulated testbed of the paper (bench/channels --only
/// costs).
inline constexpr ChannelCosts kCostsAgainstDatagrams{
    .dc_ring_gain = 0, .rc_ring_gain = 350'000, .dc_ring_setup = 0, .connected_gain = 250'000};

struct MapLimits {
  uint32_t ring_entries = 16;   ///< s
  uint32_t max_rings = 256;     ///< tau
  uint32_t max_connected = 26;  ///< h
  bool dc = true;               ///< false: every ring is written over a connected queue pair; dc_ring_* are 0
};

struct FoundMap {
  uint32_t rings = 0;         ///< l
  uint32_t connected = 0;     ///< m, without the paired peers
  uint32_t without_ring = 0;  ///< k
  int64_t gain = 0;
  bool operator==(const FoundMap&) const = default;
};

/// What a ring gains by a connected queue pair, in picoseconds: rings of paired peers are connected if it is positive.
inline int64_t gain_of_connecting(int64_t messages, const ChannelCosts& costs) {
  return messages * (costs.rc_ring_gain - costs.dc_ring_gain) - costs.rc_ring_setup + costs.dc_ring_setup;
}

/// `counts`: messages of each peer, descending. `paired`: not 0 for paired peers, in the same order; empty: there are
/// none. Among maps with equal gain, the one with the fewest rings, then the fewest connected.
FoundMap find_map(std::span<const uint32_t> counts, const ChannelCosts& costs, const MapLimits& limits,
                  std::span<const uint8_t> paired = {});

/// The gain of an existing map: without the cost of making the channels. The counts are of the peers with connected
/// rings, of those with other rings, and of those that are connected without a ring, in any order.
int64_t gain_of_map(std::span<const uint32_t> connected, std::span<const uint32_t> others,
                    std::span<const uint32_t> without_ring, const ChannelCosts& costs, const MapLimits& limits);

}  // namespace tern
