// Locks of windows whose targets compute (Jiang et al. 2004, sections 4 and 6.5), in virtual time: a thread that polls
// all the time serves them at once where it has a core, one that sleeps is woken first, and where the application has
// the only core the one that polls waits for its turn. Random programs with all designs, under faults.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "capi/simulated/run_mpi.h"
#include "capi/world.h"
#include "mpi.h"
#include "sim/rank_time.h"
#include "tests/sim/draw_world.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

constexpr const char* kDesigns[] = {"auto", "polling-thread", "event-thread", "test-and-set", "mcs"};
constexpr int kMaxRanks = 6, kRounds = 20;
constexpr uint64_t kCompute_ns = 100'000'000;
/// Of the run of this moment.
std::array<uint64_t, kMaxRanks> round_ns;  ///< by rank: of one lock, put and unlock
uint64_t run_seed;

Process& process() { return *capi::current().process; }
SimClock& rank_clock() { return static_cast<SimClock&>(process().clock()); }

/// Rank 0 computes all the time, the others lock its window by turns.
int serve(int, char**) {
  MPI_Init(nullptr, nullptr);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long *memory, one = 1;
  MPI_Win win;
  MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  *memory = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    rank_clock().compute_ns(kCompute_ns);
  } else {
    rank_clock().compute_ns(1'000'000);
    const uint64_t began = rank_clock().now_ns();
    for (int i = 0; i < kRounds; ++i) {
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
      MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
      MPI_Win_unlock(0, win);
    }
    round_ns[size_t(rank)] = (rank_clock().now_ns() - began) / kRounds;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  int ranks, wrong = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0) {
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    wrong = *memory != long(kRounds) * (ranks - 1);
    MPI_Win_unlock(0, win);
  }
  MPI_Win_free(&win);
  MPI_Finalize();
  return wrong;
}

WorldOptions world(const char* design, uint32_t cores) {
  WorldOptions options;
  options.tunables.rma_lock = design;
  options.tunables.progress = "event";
  options.cores_per_node = cores;
  options.network.wake_ns = 15'000;
  return options;
}

uint64_t round_of(const char* design, uint32_t cores, const char* progress = "event") {
  WorldOptions options = world(design, cores);
  options.tunables.progress = progress;
  const Report report = run_mpi(options, serve);
  EXPECT_TRUE(report.ok()) << report.failure;
  return round_ns[1];
}

TEST(SimLocks, AThreadThatPollsIsNotWokenFirst) {
  const uint64_t polling_ns = round_of("polling-thread", 2), event_ns = round_of("event-thread", 2);
  EXPECT_GT(event_ns, 15'000u);
  EXPECT_LT(polling_ns + 12'000, event_ns);
}

// As in figures 5 and 6: computing threads, or a second rank, on all cores.
TEST(SimLocks, AThreadThatPollsWaitsForItsCore) {
  const uint64_t alone_ns = round_of("polling-thread", 2);
  EXPECT_GT(round_of("polling-thread", 1), 20 * alone_ns);
  EXPECT_LT(round_of("event-thread", 1), 2 * round_of("event-thread", 2));
}

// The design needs its thread, whatever else is asked for.
TEST(SimLocks, AThreadThatPollsIsThereWithoutAnEventThread) {
  EXPECT_LT(round_of("polling-thread", 2, "polling"), 15'000u);
  EXPECT_GT(round_of("event-thread", 2, "polling"), kCompute_ns / 2 / kRounds);
}

/// Windows with drawn designs that come and go, locked, put to and computed beside.
int drawn(int, char**) {
  MPI_Init(nullptr, nullptr);
  int rank, ranks, wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Rng rng(run_seed * 89 + uint64_t(rank)), shared(run_seed);
  for (int round = 0; round < 4; ++round) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "tern_rma_lock", kDesigns[shared.below(std::size(kDesigns))]);
    long created[2] = {}, *allocated, one = 1, got;
    MPI_Win wins[2];
    MPI_Win_create(created, sizeof created, sizeof(long), info, MPI_COMM_WORLD, &wins[0]);
    MPI_Info_set(info, "tern_rma_lock", kDesigns[shared.below(std::size(kDesigns))]);
    MPI_Win_allocate(2 * sizeof(long), sizeof(long), info, MPI_COMM_WORLD, &allocated, &wins[1]);
    std::memset(allocated, 0, 2 * sizeof(long));
    MPI_Info_free(&info);
    MPI_Barrier(MPI_COMM_WORLD);
    const int visits = 3 + int(shared.below(4));
    for (int i = 0; i < visits; ++i) {
      MPI_Win win = wins[rng.below(2)];
      const bool counts = win == wins[i % 2];
      rank_clock().compute_ns(rng.below(400'000));
      MPI_Win_lock(counts ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, i % ranks, 0, win);
      MPI_Get(&got, 1, MPI_LONG, i % ranks, 0, 1, MPI_LONG, win);
      if (counts) {
        MPI_Win_flush(i % ranks, win);
        rank_clock().compute_ns(rng.below(30'000));
        ++got;
        MPI_Put(&got, 1, MPI_LONG, i % ranks, 0, 1, MPI_LONG, win);
        MPI_Accumulate(&one, 1, MPI_LONG, i % ranks, 1, 1, MPI_LONG, MPI_SUM, win);
      }
      MPI_Win_unlock(i % ranks, win);
      if (rng.below(3) == 0) MPI_Win_sync(win);
    }
    rank_clock().compute_ns(rng.below(3'000'000));
    MPI_Barrier(MPI_COMM_WORLD);
    for (MPI_Win win : wins) {
      MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
      const long* memory = win == wins[0] ? created : allocated;
      wrong += memory[0] != memory[1];
      MPI_Win_unlock(rank, win);
      MPI_Win_free(&win);
    }
  }
  MPI_Finalize();
  return wrong;
}

TEST(SimLocks, DrawnProgramsUnderFaults) {
  for_seeds(60, [&](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = world("auto", uint32_t(rng.below(4)));
    constexpr const char* kProgress[] = {"auto", "event", "adaptive", "polling"};
    options.tunables.progress = kProgress[rng.below(4)];
    options.seed = run_seed = seed;
    draw_few_ranks(rng, options);
    const Report report = run_mpi(options, drawn);
    ASSERT_TRUE(report.ok()) << report.failure;
  });
}

}  // namespace
}  // namespace tern::sim
