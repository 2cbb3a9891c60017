// Random partitioned communication in the simulated world: random partitionings on both sides, random order of
// MPI_Pready and of the starts, several messages of one tag at the same time, over every simulated path with faults.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "capi/simulated/run_mpi.h"
#include "mpi.h"
#include "tests/sim/check_mpi.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

uint64_t program_seed;  // of the run: all ranks draw the same numbers

struct Channel {
  int elements, out_parts, in_parts;
  std::vector<int> out, in;
  MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
};

int value_of(int rank, size_t channel, int round, int i) {
  return rank * 1000003 + int(channel) * 7919 + round * 31 + i;
}

// Marks all partitions of all channels, in an order of their own, one call at a time.
int mark_all(std::vector<Channel>& channels, Rng& rng) {
  std::vector<std::pair<size_t, int>> marks;
  for (size_t c = 0; c < channels.size(); ++c) {
    for (int p = 0; p < channels[c].out_parts; ++p) marks.emplace_back(c, p);
  }
  for (size_t i = marks.size(); i > 1; --i) std::swap(marks[i - 1], marks[rng.below(uint32_t(i))]);
  for (auto [c, p] : marks) {
    CHECK_MPI(MPI_Pready(p, channels[c].send));
    if (rng.chance(1, 4)) {
      int flag;
      Channel& asked = channels[rng.below(uint32_t(channels.size()))];
      CHECK_MPI(MPI_Parrived(asked.receive, int(rng.below(uint32_t(asked.in_parts))), &flag));
    }
  }
  return 0;
}

int partitioned(int argc, char** argv) {
  int rank, size;
  CHECK_MPI(MPI_Init(&argc, &argv));
  CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  Rng common(program_seed), own(program_seed * 977 + uint64_t(rank));
  const int shift = int(common.below(uint32_t(size)));
  const int to = (rank + shift) % size, from = (rank - shift + size) % size;
  std::vector<Channel> channels(1 + common.below(4));
  for (Channel& c : channels) {
    constexpr int kUnits[] = {12, 120, 2520, 25200};
    constexpr int kParts[] = {1, 2, 3, 4, 6, 12};
    c.elements = kUnits[common.below(4)];
    c.out_parts = kParts[common.below(6)];
    c.in_parts = kParts[common.below(6)];
    c.out.resize(size_t(c.elements));
    c.in.resize(size_t(c.elements));
  }
  const bool sends_first = own.chance(1, 2);
  for (int side = 0; side < 2; ++side) {
    for (Channel& c : channels) {
      if ((side == 0) == sends_first) {
        CHECK_MPI(MPI_Psend_init(c.out.data(), c.out_parts, c.elements / c.out_parts, MPI_INT, to, 1, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &c.send));
      } else {
        CHECK_MPI(MPI_Precv_init(c.in.data(), c.in_parts, c.elements / c.in_parts, MPI_INT, from, 1, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &c.receive));
      }
    }
  }
  for (int round = 0; round < 4; ++round) {
    for (size_t c = 0; c < channels.size(); ++c) {
      Channel& channel = channels[c];
      for (int i = 0; i < channel.elements; ++i) channel.out[size_t(i)] = value_of(rank, c, round, i);
      std::fill(channel.in.begin(), channel.in.end(), -1);
      const bool receive_first = own.chance(1, 2);
      CHECK_MPI(MPI_Start(receive_first ? &channel.receive : &channel.send));
      CHECK_MPI(MPI_Start(receive_first ? &channel.send : &channel.receive));
    }
    if (int line = mark_all(channels, own)) return line;
    for (size_t c = 0; c < channels.size(); ++c) {
      MPI_Status status;
      CHECK_MPI(MPI_Wait(&channels[c].receive, &status));
      if (status.MPI_SOURCE != from || status.MPI_TAG != 1) return __LINE__;
      for (int i = 0; i < channels[c].elements; ++i) {
        if (channels[c].in[size_t(i)] != value_of(from, c, round, i)) return __LINE__;
      }
      CHECK_MPI(MPI_Wait(&channels[c].send, MPI_STATUS_IGNORE));
    }
  }
  for (Channel& c : channels) {
    CHECK_MPI(MPI_Request_free(&c.send));
    CHECK_MPI(MPI_Request_free(&c.receive));
  }
  CHECK_MPI(MPI_Finalize());
  return 0;
}

WorldOptions options_of(uint64_t seed) {
  Rng rng(seed * 7331);
  WorldOptions options;
  options.seed = seed;
  options.ranks = uint32_t(1 + rng.below(6));
  options.ranks_per_node = uint32_t(1 + rng.below(3));
  options.faults = Faults::random(rng);
  options.network.get = NetworkModel::Get(rng.below(3));
  options.network.put = rng.chance(1, 2);
  options.limits.events = 50'000'000;
  return options;
}

void run(uint64_t seed, const WorldOptions& options) {
  program_seed = seed;
  Report report = run_mpi(options, partitioned);
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(MpiPartitioned, OverTheModelNetwork) {
  for_seeds(150, [](uint64_t seed) { run(seed, options_of(seed)); });
}

TEST(MpiPartitioned, OverSimulatedRdmaAdapters) {
  for_seeds(40, [](uint64_t seed) {
    WorldOptions options = options_of(seed);
    options.rdma = true;
    options.tunables.rdma_keepalive_ms = 0;
    options.adapter_faults.datagram_loss_in_1024 = 100;
    run(seed, options);
  });
}

TEST(MpiPartitioned, OverSimulatedStreams) {
  for_seeds(40, [](uint64_t seed) {
    WorldOptions options = options_of(seed);
    options.tcp = true;
    options.stream_faults.drop_in_1024 = uint32_t(seed % 5);
    options.stream_faults.reset_in_65536 = 300;
    options.stream_faults.partial_in_1024 = 100;
    options.limits.virtual_ns = 3'600'000'000'000;
    run(seed, options);
  });
}

}  // namespace
}  // namespace tern::sim
