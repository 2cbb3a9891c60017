// The event thread's policy in virtual time (sim/event_thread.h): messages move while ranks compute, nothing that is
// pending is left to nobody, under many seeds and faults, with cores of their own and with shared ones.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "capi/simulated/run_mpi.h"
#include "capi/world.h"
#include "mpi.h"
#include "sim/rank_time.h"
#include "tests/sim/draw_world.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

constexpr int kMaxRanks = 8;
/// Of the run of this moment, by rank.
struct Seen {
  uint64_t wait_ns, computing_ns, handled, ticks;
};
std::array<Seen, kMaxRanks> seen;
uint64_t run_seed;

Process& process() { return *capi::current().process; }
SimClock& rank_clock() { return static_cast<SimClock&>(process().clock()); }

void note_counters(int rank) {
  seen[size_t(rank)].handled = process().counters().event_handled;
  seen[size_t(rank)].ticks = process().counters().event_ticks;
}

constexpr int kBytes = 1 << 20;
constexpr uint64_t kCompute_ns = 20'000'000;

/// Rank 0 sends while rank 1, whose receive is posted, computes.
int overlap(int, char**) {
  MPI_Init(nullptr, nullptr);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<char> data(kBytes, char(rank));
  MPI_Request request;
  if (rank == 0) {
    MPI_Isend(data.data(), kBytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
  } else {
    MPI_Irecv(data.data(), kBytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
  }
  uint64_t before = rank_clock().now_ns();
  rank_clock().compute_ns(kCompute_ns);
  seen[size_t(rank)].computing_ns = rank_clock().now_ns() - before;
  before = rank_clock().now_ns();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  seen[size_t(rank)].wait_ns = rank_clock().now_ns() - before;
  const bool right = data[0] == 0 && data[kBytes - 1] == 0;
  note_counters(rank);
  MPI_Finalize();
  return rank == 0 || right ? 0 : 1;
}

WorldOptions world(const char* progress, uint32_t cores) {
  WorldOptions options;
  options.tunables.progress = progress;
  options.cores_per_node = cores;
  options.network.adapter_bytes_per_us = options.network.port_bytes_per_us = 1250;  // 10 Gbit/s: 0.84 ms for 1 MiB
  options.network.wake_ns = 15'000;
  return options;
}

TEST(SimEventThread, ATransferGoesOnWhileBothRanksCompute) {
  ASSERT_TRUE(run_mpi(world("polling", 1), overlap).ok());
  const uint64_t polling_ns = seen[1].wait_ns;
  EXPECT_GT(polling_ns, 500'000u);
  EXPECT_EQ(seen[1].handled, 0u);
  for (const char* progress : {"event", "adaptive", "event-driven"}) {
    const Report report = run_mpi(world(progress, 1), overlap);
    ASSERT_TRUE(report.ok()) << report.failure;
    EXPECT_LT(seen[1].wait_ns, polling_ns / 50) << progress;
    EXPECT_GT(seen[1].handled, 0u) << progress;
  }
}

// On a core of its own the thread takes nothing from the application.
TEST(SimEventThread, TakesTheCoreWhereThereIsNoOther) {
  ASSERT_TRUE(run_mpi(world("event", 1), overlap).ok());
  EXPECT_GT(seen[1].computing_ns, kCompute_ns + 50'000);
  ASSERT_TRUE(run_mpi(world("event", 2), overlap).ok());
  EXPECT_LT(seen[1].computing_ns, kCompute_ns + 50'000);
  EXPECT_GT(seen[1].handled, 0u);
}

/// Rank 1 computes for 20 s; after 12 s a message of rank 0 wakes its thread.
int long_burst(int, char**) {
  constexpr uint64_t kLong_ns = 20'000'000'000;
  MPI_Init(nullptr, nullptr);
  int rank, value = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 1) MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
  const uint64_t before = rank_clock().now_ns();
  rank_clock().compute_ns(rank == 0 ? kLong_ns * 3 / 5 : kLong_ns);
  seen[size_t(rank)].computing_ns = rank_clock().now_ns() - before;
  if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Finalize();
  return 0;
}

TEST(SimEventThread, AnArrivalInALongBurstTakesItsOwnTimeOnly) {
  ASSERT_TRUE(run_mpi(world("event", 1), long_burst).ok());
  EXPECT_GT(seen[1].computing_ns, 20'000'000'000u);
  EXPECT_LT(seen[1].computing_ns, 20'010'000'000u);
}

int compute_only(int, char**) {
  MPI_Init(nullptr, nullptr);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  const uint64_t before = rank_clock().now_ns();
  rank_clock().compute_ns(kCompute_ns);
  seen[size_t(rank)].computing_ns = rank_clock().now_ns() - before;
  MPI_Finalize();
  return 0;
}

TEST(SimEventThread, RanksShareCoresEvenly) {
  WorldOptions options = world("polling", 2);
  options.ranks = options.ranks_per_node = 4;
  ASSERT_TRUE(run_mpi(options, compute_only).ok());
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_NEAR(double(seen[rank].computing_ns), 2.0 * kCompute_ns, 0.2 * kCompute_ns) << rank;
  }
}

/// Drawn messages round a ring, with drawn computing, tests and waits between them.
int drawn(int, char**) {
  MPI_Init(nullptr, nullptr);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Rng rng(run_seed * 97 + uint64_t(rank)), shared(run_seed);
  constexpr int kSizes[] = {0, 8, 500, 9000, 70'000, 300'000};
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  int wrong = 0;
  for (int step = 0; step < 12; ++step) {
    const int bytes = kSizes[shared.below(std::size(kSizes))];
    std::vector<char> out(size_t(bytes) + 1, char(rank + step)), in(size_t(bytes) + 1, char(-1));
    MPI_Request requests[2];
    if (rng.below(3) == 0) rank_clock().compute_ns(rng.below(300'000));
    MPI_Irecv(in.data(), bytes, MPI_CHAR, from, step, MPI_COMM_WORLD, &requests[0]);
    if (rng.below(3) == 0) rank_clock().compute_ns(rng.below(3'000'000));
    MPI_Isend(out.data(), bytes, MPI_CHAR, to, step, MPI_COMM_WORLD, &requests[1]);
    for (uint64_t looks = rng.below(3); looks != 0; --looks) {
      int flag;
      rank_clock().compute_ns(rng.below(200'000));
      MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    }
    rank_clock().compute_ns(rng.below(2'000'000));
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < bytes; i += 61) wrong += in[size_t(i)] != char(from + step);
  }
  note_counters(rank);
  MPI_Finalize();
  return wrong;
}

TEST(SimEventThread, DrawnProgramsUnderFaults) {
  uint64_t handled = 0, ticks = 0;
  for_seeds(60, [&](uint64_t seed) {
    Rng rng(seed);
    constexpr const char* kForms[] = {"event", "adaptive", "event-driven"};
    WorldOptions options = world(kForms[rng.below(std::size(kForms))], uint32_t(rng.below(4)));
    options.seed = run_seed = seed;
    draw_few_ranks(rng, options);
    const Report report = run_mpi(options, drawn);
    ASSERT_TRUE(report.ok()) << report.failure;
    for (uint32_t rank = 0; rank < options.ranks; ++rank) {
      handled += seen[rank].handled;
      ticks += seen[rank].ticks;
    }
  });
  EXPECT_GT(handled, 20u);  // under sanitizers there are fewer seeds
  EXPECT_GT(ticks, 20u);
}

constexpr int kRounds = 50;

/// Messages of 8 bytes to and fro; nobody computes.
int ping_pong(int, char**) {
  MPI_Init(nullptr, nullptr);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char data[8] = {};
  MPI_Barrier(MPI_COMM_WORLD);
  const uint64_t before = rank_clock().now_ns();
  for (int round = 0; round < kRounds; ++round) {
    if (rank == 0) MPI_Send(data, 8, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(data, 8, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(data, 8, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
  }
  seen[size_t(rank)].wait_ns = (rank_clock().now_ns() - before) / (2 * kRounds);
  note_counters(rank);
  MPI_Finalize();
  return 0;
}

// LA-MPI-ED: the thread is woken for a message, and wakes the application; its default leaves one alone that waits.
TEST(SimEventThread, EventDrivenPaysTwoWakesForEachMessage) {
  const auto run = [](const char* progress) {
    WorldOptions options = world(progress, 1);
    EXPECT_TRUE(run_mpi(options, ping_pong).ok());
    return seen[1];
  };
  const Seen polled = run("polling"), adaptive = run("adaptive"), driven = run("event-driven");
  EXPECT_EQ(polled.handled, 0u);
  EXPECT_LT(adaptive.wait_ns, polled.wait_ns + 1000);
  EXPECT_GE(driven.handled, uint64_t(kRounds));
  EXPECT_NEAR(double(driven.wait_ns), double(polled.wait_ns + 2 * 15'000), 3000);
}

// The same seed, the same run.
TEST(SimEventThread, RunsAreReproducible) {
  run_seed = 7;
  WorldOptions options = world("event", 1);
  options.ranks = 3;
  const uint64_t first = run_mpi(options, drawn).trace_hash;
  EXPECT_EQ(run_mpi(options, drawn).trace_hash, first);
}

}  // namespace
}  // namespace tern::sim
