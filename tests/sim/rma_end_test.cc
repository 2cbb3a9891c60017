// Windows over adapters end while operations of their locks are under way: freed while a rank that has waited long for
// a lock still asks whether the holder lives, and destroyed without being freed, with a lock that is held, asked for,
// or given back by an operation that nobody waits for. What comes back afterwards must find what it refers to (ASan;
// and an assertion of WordLocks).
#include <gtest/gtest.h>

#include "coll/collectives.h"
#include "rma/window.h"
#include "sim/world.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

using rma::Operation;
using rma::Window;

constexpr uint64_t kProbe_ns = 100'000'000;  // as in word_locks.cc

struct Rank {
  explicit Rank(Process& its_process) : process(its_process), me(process.world_rank()) {
    Window::Plan plan{rma::Flavor::create, memory, sizeof memory, 8, nullptr};
    if (Error error = Window::create(process.windows(), process.world(), plan, window))
      throw std::runtime_error(std::string(error.text()));
    put.origin = &value;
    put.origin_count = put.target_count = 1;
    put.origin_type = put.target_type = &types.get(type_id::kInt64);
  }
  void barrier() {
    Request* none = nullptr;
    if (const Error error = collective(process.world(), tern::Operation::barrier, Operands(), Mode::blocking, none))
      ADD_FAILURE() << "rank " << me << ": " << error.text();
  }
  void poll_for(uint64_t ns) {
    for (const uint64_t until = process.clock().now_ns() + ns; process.clock().now_ns() < until;) {
      process.progress().poll();
      process.clock().charge_ns(1000);
    }
  }
  void visit(int target, int type) {
    EXPECT_FALSE(window->access().lock(type, target, 0));
    put.target = target;
    EXPECT_FALSE(window->begin(put, nullptr));
    EXPECT_FALSE(window->access().unlock(target));
  }

  Process& process;
  const int me;
  int64_t memory[4] = {}, value = 7;
  PredefinedTypes types;
  std::unique_ptr<Window> window;
  Operation put{wire::WindowAction::put};
};

/// Rank 1 holds the lock of rank 0 until the others have asked whether it lives. The question is still under way when
/// they have had the lock: its answer takes as long as the release, and `free` follows at once.
void free_beside_a_question(Process& process, uint64_t hold_ns) {
  Rank rank(process);
  if (rank.me == 1) {
    EXPECT_FALSE(rank.window->access().lock(rma::kLockExclusive, 0, 0));
    rank.put.target = 0;
    EXPECT_FALSE(rank.window->begin(rank.put, nullptr));
    EXPECT_FALSE(rank.window->access().flush(0));
  }
  rank.barrier();
  if (rank.me == 1) {
    rank.poll_for(hold_ns);
    EXPECT_FALSE(rank.window->access().unlock(0));
  } else if (rank.me != 0) {
    rank.visit(0, rank.me % 2 == 0 ? rma::kLockExclusive : rma::kLockShared);
  }
  EXPECT_FALSE(rank.window->free());
  rank.window.reset();
  rank.poll_for(1'000'000);
  rank.barrier();
}

/// All lock rank 0's memory for a while; then the origins of rank 0 drop their windows in the middle, and rank 0
/// drops its own afterwards. (With MCS there is one origin, since origins write to each other's words.)
void drop_in_the_middle(Process& process, uint64_t seed, bool mcs) {
  Rank rank(process);
  Rng rng(seed * 17 + uint64_t(rank.me));
  for (int i = 0; i < 5; ++i) {
    rank.visit(0, rng.chance(1, 2) ? rma::kLockExclusive : rma::kLockShared);
  }
  rank.barrier();
  rank.poll_for(1'000'000);  // what the ranks write to each other's words has arrived
  rank.barrier();
  const bool is_origin = rank.me == 1 || (rank.me != 0 && !mcs);
  if (is_origin && seed % 3 != 0) {  // nobody waits for a lock that is never given back
    EXPECT_FALSE(rank.window->access().lock(rng.chance(1, 2) ? rma::kLockExclusive : rma::kLockShared, 0, 0));
    rank.put.target = 0;
    EXPECT_FALSE(rank.window->begin(rank.put, nullptr));  // asks for the lock
    for (uint64_t polls = rng.below(20); polls != 0; --polls) process.progress().poll();
  } else if (is_origin) {
    rank.visit(0, rma::kLockShared);
  }
  if (is_origin) rank.window.reset();
  rank.barrier();
  rank.window.reset();
  rank.poll_for(1'000'000 + rng.below(1'000'000));
  rank.barrier();
}

WorldOptions over_adapters(uint64_t seed) {
  Rng rng(seed);
  WorldOptions options;
  options.seed = seed;
  options.ranks = uint32_t(3 + rng.below(2));
  options.limits = {20'000'000'000, 60'000'000};
  options.rdma = true;
  options.tunables.rma_lock = seed % 2 == 0 ? "mcs" : "test-and-set";
  options.tunables.rdma_keepalive_ms = 0;
  options.adapter.atomic_swap = rng.chance(1, 2);
  options.adapter.atomics_with_cpu = rng.chance(1, 2);
  options.faults.early_in_8 = uint32_t(rng.below(3));
  options.faults.delay_in_1024 = uint32_t(rng.below(100));
  options.faults.start_skew_ns = 1 + rng.below(500'000);
  return options;
}

TEST(RmaEnd, FreedBesideAQuestionWhetherTheHolderLives) {
  for_seeds(40, [](uint64_t seed) {
    const uint64_t hold_ns = kProbe_ns - 20'000 + seed * 1000;  // around the first question
    const Report report =
        World(over_adapters(seed)).run([&](Process& process) { free_beside_a_question(process, hold_ns); });
    ASSERT_TRUE(report.ok()) << report.failure;
  });
}

TEST(RmaEnd, DestroyedInTheMiddle) {
  for_seeds(60, [](uint64_t seed) {
    const Report report =
        World(over_adapters(seed)).run([&](Process& process) { drop_in_the_middle(process, seed, seed % 2 == 0); });
    ASSERT_TRUE(report.ok()) << report.failure;
  });
}

}  // namespace
}  // namespace tern::sim
