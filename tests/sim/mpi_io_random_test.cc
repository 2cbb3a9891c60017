// Random programs about files against a model of the file (io_program.h), in the world: drawn ranks, hosts, networks
// with faults, transfers that are cut short, interrupted and seen half done by others.
#include <gtest/gtest.h>

#include "capi/simulated/run_mpi.h"
#include "tests/sim/io_program.h"
#include "tests/sim/memory_files.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

uint64_t current_seed;  // read by the ranks, written between runs

WorldOptions options_for(uint64_t seed) {
  Rng rng(seed);
  WorldOptions options;
  options.ranks = uint32_t(1 + rng.below(4));
  options.ranks_per_node = uint32_t(1 + rng.below(options.ranks));
  options.seed = seed;
  options.limits = {20'000'000'000, 60'000'000};
  options.faults = Faults::random(rng);
  return options;
}

std::function<void(Machine::Rank&, Process&)> with_disk(MemoryDisk& disk) {
  return [&disk](Machine::Rank& rank, Process& process) {
    process.files().use(std::make_unique<MemoryFiles>(disk, rank.strand, rank.seed ^ 0xf11e),
                        std::make_unique<DrawnBackground>(rank.strand, rank.seed ^ 0xbac6));
  };
}

int play(int, char**) {
  MPI_Init(nullptr, nullptr);
  FileProgram program(current_seed, "/memory");
  const std::string wrong = program.play(14);
  MPI_Finalize();
  if (!wrong.empty()) throw std::runtime_error(wrong);
  return 0;
}

TEST(MpiIoRandom, FilesAreAsTheModelSays) {
  for_seeds(150, [](uint64_t seed) {
    current_seed = seed;
    MemoryDisk disk;
    Rng rng(seed * 31);
    disk.faults.short_in_256 = uint32_t(rng.chance(1, 2) ? rng.below(128) : 0);
    disk.faults.interrupted_in_256 = uint32_t(rng.chance(1, 2) ? rng.below(64) : 0);
    disk.faults.torn = rng.chance(1, 3);
    const Report report = run_mpi(options_for(seed), play, with_disk(disk));
    ASSERT_TRUE(report.ok()) << report.failure;
    EXPECT_TRUE(disk.open.empty());
  });
}

}  // namespace
}  // namespace tern::sim
