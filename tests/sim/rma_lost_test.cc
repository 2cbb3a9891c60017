// A rank dies while it holds the lock of another one's window, or while others wait for it to post or to complete: they
// get an error, nobody hangs.
#include <gtest/gtest.h>

#include "rma/window.h"
#include "sim/world.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

using rma::Operation;
using rma::Window;

constexpr size_t kWords = 4;

/// `memory`: of a window of MPI_Win_create.
std::unique_ptr<Window> make_window(Process& process, rma::Flavor flavor, int64_t (&memory)[kWords]) {
  std::unique_ptr<Window> window;
  Window::Plan plan{flavor, flavor == rma::Flavor::create ? memory : nullptr, sizeof memory, 8, nullptr};
  if (Error error = Window::create(process.windows(), process.world(), plan, window))
    throw std::runtime_error(std::string(error.text()));
  return window;
}

/// Rank 1 takes the lock of rank 0 and waits for its death. The others take it by turns, until it has died.
void live_on(Process& process, rma::Flavor flavor) {
  int64_t memory[kWords] = {}, value = 7;
  PredefinedTypes types;
  const std::unique_ptr<Window> window = make_window(process, flavor, memory);
  Operation put{wire::WindowAction::put};
  put.origin = &value;
  put.origin_count = put.target_count = 1;
  put.origin_type = put.target_type = &types.get(type_id::kInt64);
  const auto access = [&]() -> Error {
    if (Error error = window->access().lock(rma::kLockExclusive, 0, 0)) return error;
    if (Error error = window->begin(put, nullptr)) return error;
    if (process.world_rank() == 1) {
      EXPECT_FALSE(window->access().flush(0));
      process.progress().wait_until([] { return false; });
    }
    return window->access().unlock(0);
  };
  Error error;
  while (!error && process.clock().now_ns() < 1'000'000'000) {
    error = access();
    process.progress().poll();
  }
  EXPECT_EQ(error.error_class(), int(ErrorClass::proc_aborted)) << error.text();
  EXPECT_EQ(access().error_class(), int(ErrorClass::proc_aborted));
  // The window stays until both have seen it.
  const Datatype& byte = types.get(type_id::kByte);
  Communicator& world = process.world();
  Status status;
  if (process.world_rank() == 2) EXPECT_FALSE(process.p2p().send(world.send_arguments(nullptr, 0, byte, 0, 1)));
  else EXPECT_FALSE(process.p2p().receive(world.receive_arguments(nullptr, 0, byte, 2, 1), status));
}

/// Rank 1 neither posts nor completes, and dies. Rank 0 waits for its post, rank 2 for its completion.
void wait_for_epochs(Process& process, rma::Flavor flavor) {
  int64_t memory[kWords] = {}, value = 7;
  PredefinedTypes types;
  const std::unique_ptr<Window> window = make_window(process, flavor, memory);
  if (process.world_rank() == 1) process.progress().wait_until([] { return false; });
  const int one = 1;
  Ref<Group> group;
  EXPECT_FALSE(process.world().group().include({&one, 1}, group));
  if (process.world_rank() == 2) {
    EXPECT_FALSE(window->access().post(*group, 0));
    EXPECT_EQ(window->access().wait().error_class(), int(ErrorClass::proc_aborted));
    return;
  }
  Operation put{wire::WindowAction::put};
  put.origin = &value;
  put.origin_count = put.target_count = 1;
  put.origin_type = put.target_type = &types.get(type_id::kInt64);
  put.target = 1;
  EXPECT_FALSE(window->access().start(*group, 0));
  Error error = window->begin(put, nullptr);
  if (Error late = window->access().complete(); !error) error = std::move(late);
  EXPECT_EQ(error.error_class(), int(ErrorClass::proc_aborted)) << error.text();
}

/// `rdma`: the ranks reach each other by adapters.
void lose_one(uint64_t seed, uint32_t ranks_per_node, const char* design, std::function<void(Process&)> body,
              bool rdma = false) {
  Rng rng(seed);
  WorldOptions options;
  options.seed = seed;
  options.ranks = 3;
  options.ranks_per_node = ranks_per_node;
  options.limits = {20'000'000'000, 60'000'000};
  options.tunables.rma_lock = design;
  options.rdma = rdma;
  options.adapter.atomic_swap = seed % 2 == 0;
  options.tunables.rdma_timeout_ms = options.tunables.rdma_retries = 1;
  options.tunables.rdma_connect_timeout_s = 1;
  options.tunables.rdma_keepalive_ms = 2;
  options.faults.losses.push_back({1, 3'000'000 + rng.below(3'000'000), 1});
  const Report report = World(options).run(body);
  EXPECT_TRUE(report.ok()) << report.failure;
}

void lose_the_holder(uint64_t seed, rma::Flavor flavor, uint32_t ranks_per_node, const char* design,
                     bool rdma = false) {
  lose_one(
      seed, ranks_per_node, design, [&](Process& process) { live_on(process, flavor); }, rdma);
}

constexpr const char* kDesigns[] = {"auto", "event-thread", "test-and-set", "mcs", "polling-thread"};

TEST(RmaLost, AHolderOfALockOnAnotherNode) {
  for_seeds(20,
            [](uint64_t seed) { lose_the_holder(seed, rma::Flavor::create, 1, kDesigns[seed % std::size(kDesigns)]); });
}
TEST(RmaLost, AHolderOfALockInNodeMemory) {
  for (const char* design : kDesigns)
    for_seeds(20, [&](uint64_t seed) { lose_the_holder(seed, rma::Flavor::allocate, 3, design); });
}
TEST(RmaLost, AHolderOfALockOfACreatedWindowInNodeMemory) {
  for (const char* design : kDesigns)
    for_seeds(20, [&](uint64_t seed) { lose_the_holder(seed, rma::Flavor::create, 3, design); });
}

TEST(RmaLost, AHolderOfALockOfWordsAtAdapters) {
  for (const char* design : kDesigns)
    for_seeds(20, [&](uint64_t seed) { lose_the_holder(seed, rma::Flavor::create, 1, design, true); });
}

TEST(RmaLost, WhoeverAnEpochWaitsFor) {
  for (const rma::Flavor flavor : {rma::Flavor::create, rma::Flavor::allocate}) {
    for_seeds(20, [&](uint64_t seed) {
      lose_one(seed, seed % 2 == 0 ? 1 : 3, "auto", [&](Process& process) { wait_for_epochs(process, flavor); });
    });
  }
}

}  // namespace
}  // namespace tern::sim
