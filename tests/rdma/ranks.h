// Several operating-system processes over real verbs, without MPI and without a launcher: forked from the test, they
// meet in shared memory. Ranks take the adapters of the machine in turn, so that neighbours talk over the cable.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include "base/clock.h"
#include "fabric/rdma/verbs/ibv.h"
#include "tests/rdma/hca_conformance_side.h"

namespace tern::rdma {

inline constexpr int kMaxRanks = 4;

/// What ranks tell each other: written before a `meet`, read after it.
struct Board {
  std::atomic<int> here[64];                     ///< arrivals at each meeting
  QueuePairAddress pairs[kMaxRanks][kMaxRanks];  ///< [of][for]
  QueuePairAddress datagram[kMaxRanks];
  uint64_t address[kMaxRanks];
  uint32_t key[kMaxRanks];
  std::atomic<int> flag;
};

/// The rank's own adapter, as a bed of one.
class RankBed final : public ConformanceBed {
 public:
  explicit RankBed(int rank) {
    Tunables tunables;
    tunables.rdma_devices = "rxe0,rxe1";
    const Error error = open_ibv({"", rank, uint64_t(1000 + rank)}, tunables, hca_);
    if (error) ADD_FAILURE() << error.text();
  }
  explicit operator bool() const { return hca_ != nullptr; }
  int adapters() const override { return 1; }
  Hca& adapter(int) override { return *hca_; }
  void pass() override { sched_yield(); }
  uint64_t now_ns() override { return clock_.now_ns(); }

 private:
  RealClock clock_;
  std::unique_ptr<Hca> hca_;
};

class Rank {
 public:
  Rank(int the_number, int the_size, Board& the_board)
      : number(the_number), size(the_size), board(the_board), bed(number), side(bed, 0) {}
  /// All ranks, or only the first `count` of them.
  void meet(int count = 0) {
    if (count == 0) count = size;
    std::atomic<int>& here = board.here[meeting_++];
    here.fetch_add(1);
    while (here.load() < count) sched_yield();
  }
  const int number, size;
  Board& board;
  RankBed bed;
  Side side;

 private:
  int meeting_ = 0;
};

/// Runs `body` in `size` processes; a process fails by gtest's means. `killed`: this rank ends by SIGKILL, as it
/// should.
inline void run_ranks(int size, const std::function<void(Rank&)>& body, int killed = -1) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Board* board = new (memory) Board{};
  std::vector<pid_t> processes;
  for (int number = 0; number < size; ++number) {
    const pid_t process = fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      alarm(100);
      {
        Rank rank(number, size, *board);
        if (rank.bed) body(rank);
      }
      fflush(nullptr);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    processes.push_back(process);
  }
  for (int number = 0; number < size; ++number) {
    int status = 0;
    ASSERT_EQ(waitpid(processes[size_t(number)], &status, 0), processes[size_t(number)]);
    if (number == killed) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "status " << status;
    } else {
      EXPECT_EQ(status, 0) << "rank " << number << " of " << size;
    }
  }
  munmap(memory, sizeof(Board));
}

}  // namespace tern::rdma
