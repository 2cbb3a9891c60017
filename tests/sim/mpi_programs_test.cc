// MPI programs through the C API in the simulated world: many ranks, faults, the same seed twice.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "capi/simulated/run_mpi.h"
#include "mpi.h"
#include "tests/sim/check_mpi.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

// A ring of halo exchanges with nonblocking calls; the sum of all cells is kept.
int ring(int argc, char** argv) {
  int rank, size;
  CHECK_MPI(MPI_Init(&argc, &argv));
  CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  std::vector<double> cells(1000 + 2, rank);
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  for (int step = 0; step < 10; ++step) {
    MPI_Request requests[4];
    CHECK_MPI(MPI_Irecv(&cells.front(), 1, MPI_DOUBLE, left, step, MPI_COMM_WORLD, &requests[0]));
    CHECK_MPI(MPI_Irecv(&cells.back(), 1, MPI_DOUBLE, right, step, MPI_COMM_WORLD, &requests[1]));
    CHECK_MPI(MPI_Isend(&cells[1], 1, MPI_DOUBLE, left, step, MPI_COMM_WORLD, &requests[2]));
    CHECK_MPI(MPI_Isend(&cells[cells.size() - 2], 1, MPI_DOUBLE, right, step, MPI_COMM_WORLD, &requests[3]));
    CHECK_MPI(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    if (cells.front() != left || cells.back() != right) return __LINE__;
  }
  CHECK_MPI(MPI_Finalize());
  return 0;
}

// Everybody sends everybody messages of growing size, received from anywhere; every byte is checked.
int exchange(int argc, char** argv) {
  int rank, size;
  CHECK_MPI(MPI_Init(&argc, &argv));
  CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  constexpr int kRounds = 6;
  std::vector<std::vector<int>> out;
  std::vector<MPI_Request> requests;
  for (int round = 0; round < kRounds; ++round) {
    for (int to = 0; to < size; ++to) {
      auto& data = out.emplace_back(size_t(1) << (2 * round), rank * 1000 + round);
      MPI_Request request;
      CHECK_MPI(MPI_Isend(data.data(), int(data.size()), MPI_INT, to, round, MPI_COMM_WORLD, &request));
      requests.push_back(request);
    }
  }
  std::vector<int> next(static_cast<size_t>(size));
  for (int i = 0; i < kRounds * size; ++i) {
    MPI_Status status;
    CHECK_MPI(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    int count;
    CHECK_MPI(MPI_Get_count(&status, MPI_INT, &count));
    std::vector<int> data(static_cast<size_t>(count));
    CHECK_MPI(MPI_Recv(data.data(), count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status));
    if (status.MPI_TAG != next[size_t(status.MPI_SOURCE)]++) return __LINE__;
    for (int value : data) {
      if (value != status.MPI_SOURCE * 1000 + status.MPI_TAG) return __LINE__;
    }
  }
  CHECK_MPI(MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  CHECK_MPI(MPI_Finalize());
  return 0;
}

// Collectives and a communicator of one's own.
int collectives(int argc, char** argv) {
  int rank, size;
  CHECK_MPI(MPI_Init(&argc, &argv));
  CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
  MPI_Comm half;
  CHECK_MPI(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half));
  int sum = 0, half_sum = 0, expected = 0;
  CHECK_MPI(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
  CHECK_MPI(MPI_Allreduce(&rank, &half_sum, 1, MPI_INT, MPI_SUM, half));
  for (int r = rank % 2; r < size; r += 2) expected += r;
  if (sum != size * (size - 1) / 2 || half_sum != expected) return __LINE__;
  std::vector<long> values(3000, rank == size - 1 ? 7 : 0);
  CHECK_MPI(MPI_Bcast(values.data(), int(values.size()), MPI_LONG, size - 1, MPI_COMM_WORLD));
  for (long value : values) {
    if (value != 7) return __LINE__;
  }
  CHECK_MPI(MPI_Barrier(half));
  CHECK_MPI(MPI_Comm_free(&half));
  CHECK_MPI(MPI_Finalize());
  return 0;
}

WorldOptions options_of(uint64_t seed, uint32_t most_ranks) {
  Rng rng(seed * 31337);
  WorldOptions options;
  options.seed = seed;
  options.ranks = uint32_t(1 + rng.below(most_ranks));
  options.ranks_per_node = uint32_t(1 + rng.below(4));
  options.faults = Faults::random(rng);
  options.network.announced_in_256 = 128;
  options.network.get = NetworkModel::Get(rng.below(3));
  options.limits.events = 50'000'000;
  return options;
}

TEST(MpiPrograms, Ring) {
  for_seeds(40, [](uint64_t seed) {
    Report report = run_mpi(options_of(seed, 16), ring);
    EXPECT_TRUE(report.ok()) << report.failure;
  });
}

TEST(MpiPrograms, Exchange) {
  for_seeds(40, [](uint64_t seed) {
    Report report = run_mpi(options_of(seed, 8), exchange);
    EXPECT_TRUE(report.ok()) << report.failure;
  });
}

TEST(MpiPrograms, Collectives) {
  for_seeds(40, [](uint64_t seed) {
    Report report = run_mpi(options_of(seed, 16), collectives);
    EXPECT_TRUE(report.ok()) << report.failure;
  });
}

TEST(MpiPrograms, OverSimulatedRdmaAdapters) {
  for_seeds(15, [](uint64_t seed) {
    WorldOptions options = options_of(seed, 8);
    options.rdma = true;
    options.tunables.rdma_keepalive_ms = 0;
    options.adapter_faults.datagram_loss_in_1024 = 100;
    for (auto program : {ring, exchange, collectives}) {
      Report report = run_mpi(options, program);
      EXPECT_TRUE(report.ok()) << report.failure;
    }
  });
}

TEST(MpiPrograms, OverSimulatedStreams) {
  for_seeds(15, [](uint64_t seed) {
    WorldOptions options = options_of(seed, 8);
    options.tcp = true;
    options.streams.networks = uint32_t(1 + seed % 2);
    options.stream_faults.drop_in_1024 = uint32_t(seed % 5);
    options.stream_faults.reset_in_65536 = 300;
    options.stream_faults.partial_in_1024 = 100;
    options.limits.virtual_ns = 3'600'000'000'000;
    for (auto program : {ring, exchange, collectives}) {
      Report report = run_mpi(options, program);
      EXPECT_TRUE(report.ok()) << report.failure;
    }
  });
}

TEST(MpiPrograms, TheSameSeedGivesTheSameRun) {
  for_seeds(5, [](uint64_t seed) {
    WorldOptions options = options_of(seed, 8);
    options.keep_trace = true;
    Report first = run_mpi(options, exchange), second = run_mpi(options, exchange);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_TRUE(first.trace == second.trace);
  });
}

TEST(MpiPrograms, ManyRanks) {
  WorldOptions options;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  options.ranks = 64;
#else
  options.ranks = 512;
#endif
  options.ranks_per_node = 16;
  Report report = run_mpi(options, collectives);
  EXPECT_TRUE(report.ok()) << report.failure;
}

int waits_for_nobody(int argc, char** argv) {
  int rank, value;
  CHECK_MPI(MPI_Init(&argc, &argv));
  CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  if (rank == 1) CHECK_MPI(MPI_Recv(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  CHECK_MPI(MPI_Finalize());
  return 0;
}

TEST(MpiPrograms, ADeadlockIsExplained) {
  Report report = run_mpi({}, waits_for_nobody);
  EXPECT_TRUE(report.deadlock);
  EXPECT_NE(report.failure.find("rank 1: waiting for messages"), std::string::npos) << report.failure;
}

int aborts(int argc, char** argv) {
  int rank;
  CHECK_MPI(MPI_Init(&argc, &argv));
  CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 42);
  CHECK_MPI(MPI_Barrier(MPI_COMM_WORLD));
  CHECK_MPI(MPI_Finalize());
  return 0;
}

TEST(MpiPrograms, AnAbortEndsTheRun) {
  Report report = run_mpi({}, aborts);
  EXPECT_NE(report.failure.find("rank 1 aborted with code 42"), std::string::npos) << report.failure;
}

}  // namespace
}  // namespace tern::sim
