// What the selection of channels and its queue pairs take in memory, by the number of ranks, all of which send in every
// unit of the statistics (Takagi et al. 2015, section 4.2 and Figure 8). Prints POINT lines for bench/channels:
//
//   statistics        what ChannelPolicy has allocated, from the allocator
//   peers             what one rank keeps of the others: RdmaPeer and its channel, from the allocator
//   tern, paper, ...  queue pairs as Table 4 counts them, and the statistics: as allocated (tern), or 8
//                     bytes a count and rank
//
// x: ranks; bytes.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fabric/rdma/channels/channel_policy.h"
#include "fabric/rdma/channels/dc_endpoint.h"
#include "fabric/rdma/channels/send_channels.h"
#include "fabric/rdma/rdma_peer.h"

namespace {

// Table 4 and section 4.2; its KB are 1000 bytes, as 93 GB of 2^16 queue pairs show.
constexpr double kCommon = (296 + 512) * 1e3, kDc4 = 1340e3, kDc28 = 3464e3, kConnected = 1424e3;
// A further queue pair that accepts connections, counted as if it could send, too.
constexpr double kDc = (kDc28 - kDc4) / 24;

size_t allocated_bytes() {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

void point(const char* series, uint32_t ranks, double bytes) {
  std::printf("POINT %s %u %.0f bytes\n", series, ranks, bytes);
}

size_t statistics_bytes(uint32_t ranks) {
  tern::Tunables tunables;
  tunables.rdma_channels = "auto";
  tern::rdma::Capabilities able;
  able.dc = true;
  tern::Rng rng(ranks);
  std::vector<uint32_t> received(ranks);
  const size_t before = allocated_bytes();
  tern::ChannelPolicy policy(tunables, able, ranks);
  const size_t rows = tern::statistics_rows(size_t(tunables.rdma_statistics), ranks);
  for (size_t unit = 0; unit < rows + 2; ++unit) {
    for (tern::PeerId peer = 1; peer < ranks; ++peer) {
      policy.count(peer, received[peer] += uint32_t(1 + rng.below(100)), false);
    }
    policy.end_of_unit(unit);
  }
  return allocated_bytes() - before;
}

size_t peers_bytes(uint32_t ranks) {
  const size_t before = allocated_bytes();
  std::vector<std::unique_ptr<tern::RdmaPeer>> peers(ranks);
  for (tern::PeerId peer = 1; peer < ranks; ++peer) peers[peer] = std::make_unique<tern::RdmaPeer>(peer);
  return allocated_bytes() - before + (ranks - 1) * sizeof(tern::DcChannel);
}

}  // namespace

int main() {
  const tern::Tunables tunables;
  for (uint32_t ranks = 16; ranks <= 1u << 16; ranks *= 4) {
    const double statistics = double(statistics_bytes(ranks));
    const double pool = double(std::min<int64_t>(ranks - 1, tunables.rdma_rc_pool));
    const double rows = double(tern::statistics_rows(size_t(tunables.rdma_statistics), ranks));
    point("statistics", ranks, statistics);
    point("peers", ranks, double(peers_bytes(ranks)));
    point("rings", ranks, double(std::min<int64_t>(ranks - 1, tunables.rdma_rings)));
    const double targets = double(tern::DcEndpoint::targets_of(4, ranks) - 4);
    point("tern", ranks, kCommon + kDc4 + targets * kDc + pool * kConnected + statistics);
    point("paper", ranks, kCommon + kDc4 + pool * kConnected + rows * 8 * ranks);
    point("DC-RDMA-OD", ranks, kCommon + kDc28);
    point("RC-RDMA-OD", ranks, kCommon + kDc4 + ranks * kConnected);
  }
  return 0;
}
