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

// A disk that becomes full, or that breaks: every rank of a collective access gets an error or none does, an error has
// its class, no rank hangs, and what calls without an error have written is there.
MemoryDisk* current_disk;

constexpr int kRegionBytes = 1 << 16;

unsigned char faulty_byte(int region, int rank, int64_t at) {
  return static_cast<unsigned char>(31 * region + 7 * rank + at);
}

struct FaultyRegion {
  int block = 1, blocks = 1, form = 0;
  bool intact = false;
};

void expect(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what);
}

/// One access of all ranks to interleaved blocks; returns its error class.
int faulty_access(MPI_File file, int form, std::vector<unsigned char>& buffer) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  const int bytes = int(buffer.size());
  int error = MPI_SUCCESS;
  switch (form) {
    case 0: error = MPI_File_write_at_all(file, 0, buffer.data(), bytes, MPI_BYTE, &status); break;
    case 1: error = MPI_File_iwrite_at_all(file, 0, buffer.data(), bytes, MPI_BYTE, &request); break;
    case 2: error = MPI_File_write_at(file, 0, buffer.data(), bytes, MPI_BYTE, &status); break;
    case 3: error = MPI_File_iwrite_at(file, 0, buffer.data(), bytes, MPI_BYTE, &request); break;
    case 4: error = MPI_File_read_at_all(file, 0, buffer.data(), bytes, MPI_BYTE, &status); break;
    default: error = MPI_File_read_at(file, 0, buffer.data(), bytes, MPI_BYTE, &status); break;
  }
  if (request != MPI_REQUEST_NULL) error = MPI_Wait(&request, &status);
  int error_class = MPI_SUCCESS;
  MPI_Error_class(error, &error_class);
  return error_class;
}

int play_with_faults(int, char**) {
  MPI_Init(nullptr, nullptr);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Rng rng(current_seed);
  MPI_Info info;
  MPI_Info_create(&info);
  const char* method[] = {"enable", "disable", "automatic"};
  MPI_Info_set(info, "romio_cb_write", method[rng.below(3)]);
  MPI_Info_set(info, "romio_ds_write", method[rng.below(3)]);
  MPI_File file;
  expect(MPI_File_open(MPI_COMM_WORLD, "/memory", MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file) == MPI_SUCCESS, "open");
  MPI_Info_free(&info);
  std::vector<FaultyRegion> regions(10);
  for (int i = 0; i < int(regions.size()); ++i) {
    FaultyRegion& region = regions[size_t(i)];
    region.block = int(1 + rng.below(3000));
    region.blocks = int(1 + rng.below(uint64_t(kRegionBytes / (region.block * size))));
    MPI_Datatype blocks;
    MPI_Type_vector(region.blocks, region.block, region.block * size, MPI_BYTE, &blocks);
    MPI_Type_commit(&blocks);
    expect(MPI_File_set_view(file, MPI_Offset(i) * kRegionBytes + rank * region.block, MPI_BYTE, blocks, "native",
                             MPI_INFO_NULL) == MPI_SUCCESS,
           "view");
    MPI_Type_free(&blocks);
    std::vector<unsigned char> buffer(size_t(region.block) * size_t(region.blocks));
    for (size_t at = 0; at < buffer.size(); ++at) buffer[at] = faulty_byte(i, rank, int64_t(at));
    const int form = region.form = int(rng.below(6));
    const int mine = faulty_access(file, form, buffer);
    expect(mine == MPI_SUCCESS || mine == MPI_ERR_IO || mine == MPI_ERR_NO_SPACE, "class " + std::to_string(mine));
    int failed = mine != MPI_SUCCESS, most = 0, least = 0;
    MPI_Allreduce(&failed, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&failed, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    const bool together = form == 0 || form == 1 || form == 4;
    expect(!together || most == least, "some ranks of a collective access have an error, others none");
    region.intact = form < 4 && most == 0;
  }
  int error_class = MPI_SUCCESS;
  MPI_Error_class(MPI_File_close(&file), &error_class);
  expect(error_class == MPI_SUCCESS || error_class == MPI_ERR_IO || error_class == MPI_ERR_NO_SPACE, "close");
  MPI_Barrier(MPI_COMM_WORLD);
  const std::vector<unsigned char>& bytes = current_disk->files.at("/memory")->bytes;
  for (int i = 0; i < int(regions.size()); ++i) {
    const FaultyRegion& region = regions[size_t(i)];
    for (int64_t at = 0; region.intact && at < int64_t(region.block) * region.blocks; ++at) {
      const int64_t block = at / region.block, in_block = at % region.block;
      const int64_t there = int64_t(i) * kRegionBytes + (block * size + rank) * region.block + in_block;
      if (there < int64_t(bytes.size()) && bytes[size_t(there)] == faulty_byte(i, rank, at)) continue;
      throw std::runtime_error("what access " + std::to_string(i) + " has written (form " +
                               std::to_string(region.form) + ", blocks of " + std::to_string(region.block) +
                               ") is not at " + std::to_string(there) + " of " + std::to_string(bytes.size()));
    }
  }
  MPI_Finalize();
  return 0;
}

TEST(MpiIoRandom, AFullDiskAndABrokenOneAreErrorsOfAll) {
  uint64_t faulty = 0;
  for_seeds(200, [&](uint64_t seed) {
    current_seed = seed;
    MemoryDisk disk;
    current_disk = &disk;
    Rng rng(seed * 37);
    disk.faults.short_in_256 = uint32_t(rng.chance(1, 2) ? rng.below(128) : 0);
    disk.faults.interrupted_in_256 = uint32_t(rng.chance(1, 2) ? rng.below(64) : 0);
    if (rng.chance(1, 2)) disk.faults.room = int64_t(rng.below(10 * kRegionBytes));
    else disk.faults.broken_from = 1 + rng.below(60);
    const Report report = run_mpi(options_for(seed), play_with_faults, with_disk(disk));
    ASSERT_TRUE(report.ok()) << report.failure;
    EXPECT_TRUE(disk.open.empty());
    faulty += disk.faults.broken_from != 0 ? disk.transfers >= disk.faults.broken_from : 1;
  });
  if (all_seeds()) {
    EXPECT_GT(faulty, 0u);
  }
}

}  // namespace
}  // namespace tern::sim
