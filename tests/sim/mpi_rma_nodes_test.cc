// Origins on the target's node and on others change the same words of a window, over adapters whose atomics exclude the
// CPU's or do not, while the target computes and has no event thread: nothing is lost, and nobody waits for the target.
#include <gtest/gtest.h>

#include <array>

#include "capi/simulated/run_mpi.h"
#include "capi/world.h"
#include "mpi.h"
#include "sim/rank_time.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

constexpr int kMaxRanks = 6, kRounds = 30;
constexpr uint64_t kCompute_ns = 200'000'000;
/// Of the run of this moment.
bool allocated;
const char* design;
struct Seen {
  uint64_t over_ns, atomics, direct, lock_words;
};
std::array<Seen, kMaxRanks> seen;

Process& process() { return *capi::current().process; }
SimClock& rank_clock() { return static_cast<SimClock&>(process().clock()); }

/// One word is added to, one is the largest number, one is counted up by compare-and-swap, one under the lock.
void change_words(MPI_Win win, int rank) {
  for (int i = 0; i < kRounds; ++i) {
    long one = 1, largest = rank * 1000 + i, old, found;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, win);
    MPI_Accumulate(&largest, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_MAX, win);
    MPI_Fetch_and_op(nullptr, &old, MPI_LONG, 0, 2, MPI_NO_OP, win);
    MPI_Win_flush(0, win);
    for (bool stored = false; !stored;) {
      const long next = old + 1;
      MPI_Compare_and_swap(&next, &old, &found, MPI_LONG, 0, 2, win);
      MPI_Win_flush(0, win);
      stored = found == old;
      old = found;
    }
    MPI_Win_unlock(0, win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Get(&old, 1, MPI_LONG, 0, 3, 1, MPI_LONG, win);
    MPI_Win_flush(0, win);
    ++old;
    MPI_Put(&old, 1, MPI_LONG, 0, 3, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
  }
}

int program(int, char**) {
  MPI_Init(nullptr, nullptr);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  alignas(8) long created[4] = {};
  long* memory = created;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "tern_rma_lock", design);
  MPI_Win win;
  if (allocated) MPI_Win_allocate(sizeof created, sizeof(long), info, MPI_COMM_WORLD, &memory, &win);
  else MPI_Win_create(created, sizeof created, sizeof(long), info, MPI_COMM_WORLD, &win);
  MPI_Info_free(&info);
  for (int i = 0; i < 4; ++i) memory[i] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  // The first operation connects the two adapters, for which the target must act.
  long none, nothing = 0;
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  MPI_Fetch_and_op(&nothing, &none, MPI_LONG, 0, 0, MPI_SUM, win);
  MPI_Win_unlock(0, win);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) rank_clock().compute_ns(kCompute_ns);
  else change_words(win, rank);
  const Counters& counters = process().counters();
  seen[size_t(rank)] = {rank_clock().now_ns(), counters.rma_atomics, counters.rma_direct, counters.rma_lock_words};
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  long now[4];
  MPI_Get(now, 4, MPI_LONG, 0, 0, 4, MPI_LONG, win);
  MPI_Win_unlock(0, win);
  const long all = long(kRounds) * (ranks - 1);
  const bool right = now[0] == all && now[1] == (ranks - 1) * 1000 + kRounds - 1 && now[2] == all && now[3] == all;
  MPI_Win_free(&win);
  MPI_Finalize();
  return right ? 0 : 1;
}

/// Two ranks on each node but the last.
void run(uint64_t seed, bool with_cpu) {
  Rng rng(seed);
  WorldOptions options;
  options.seed = seed;
  options.ranks = 3 + uint32_t(rng.below(3));
  options.ranks_per_node = 2;
  options.rdma = options.node_path = true;
  options.tunables.progress = "polling";
  options.tunables.rdma_keepalive_ms = 0;
  options.network.get = NetworkModel::Get::cpu;  // puts and gets of the node: by the origin, as by cross-memory attach
  options.network.put = true;
  options.adapter.atomics_with_cpu = with_cpu;
  options.adapter.atomic_swap = rng.chance(1, 2);
  options.faults.early_in_8 = uint32_t(rng.below(3));
  options.faults.delay_in_1024 = uint32_t(rng.below(100));
  allocated = rng.chance(1, 2);
  design = rng.chance(1, 2) ? "mcs" : "test-and-set";
  const Report report = run_mpi(options, program);
  ASSERT_TRUE(report.ok()) << report.failure;
  for (uint32_t rank = 1; rank < options.ranks; ++rank) {
    EXPECT_LT(seen[rank].over_ns, kCompute_ns) << "rank " << rank << " waited for the target";
    EXPECT_GT(seen[rank].lock_words, 0u);
    const bool maps = rank == 1 && allocated && with_cpu;
    EXPECT_EQ(seen[rank].atomics == 0, maps) << "rank " << rank;
  }
}

/// MPI_COMM_TYPE_SHARED gives ranks that can share memory: two of a node, or each alone where the node has none.
int expected_to_share;
int shared_program(int, char**) {
  MPI_Init(nullptr, nullptr);
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int size, rank;
  MPI_Comm_size(node, &size);
  MPI_Comm_rank(node, &rank);
  long *mine, *last;
  MPI_Aint bytes;
  int unit;
  MPI_Win win;
  const int made = MPI_Win_allocate_shared(sizeof(long), sizeof(long), MPI_INFO_NULL, node, &mine, &win);
  bool right = made == MPI_SUCCESS && size == expected_to_share;
  *mine = rank + 1;
  MPI_Win_fence(0, win);
  MPI_Win_shared_query(win, size - 1, &bytes, &unit, &last);
  right = right && *last == size;
  MPI_Win_fence(0, win);
  MPI_Win_free(&win);
  MPI_Comm_free(&node);
  MPI_Finalize();
  return right ? 0 : 1;
}

TEST(SimRmaNodes, SharedWindowsNeedTheMemoryOfTheNode) {
  for (const bool segments : {true, false}) {
    WorldOptions options;
    options.ranks = 4;
    options.ranks_per_node = 2;
    options.segments = segments;
    expected_to_share = segments ? 2 : 1;
    const Report report = run_mpi(options, shared_program);
    EXPECT_TRUE(report.ok()) << report.failure;
  }
}

TEST(SimRmaNodes, AdaptersThatDoNotExcludeTheCpu) {
  for_seeds(30, [](uint64_t seed) { run(seed, false); });
}
TEST(SimRmaNodes, AdaptersThatExcludeTheCpu) {
  for_seeds(30, [](uint64_t seed) { run(seed, true); });
}

}  // namespace
}  // namespace tern::sim
