// Segments that ranks of a node share, real and simulated: zero at the beginning, the same memory for all, given back
// by the last, errors for what cannot be; really reserved; ranks that are processes of their own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/rng.h"
#include "fabric/shm/free_memory.h"
#include "fabric/shm/shm_segments.h"
#include "tests/unit/shm_helpers.h"

namespace tern {
namespace {

using test::common_fence;
using test::make_common;

/// Bytes of the node's memfd that are really there.
uint64_t resident(ShmNode& node) {
  struct stat file;
  EXPECT_EQ(fstat(node.memfd(), &file), 0);
  return uint64_t(file.st_blocks) * 512;
}

bool all_zero(const NodeSegment& segment) {
  for (size_t i = 0; i < segment.bytes; ++i) {
    if (segment.data[i] != std::byte{}) return false;
  }
  return true;
}

TEST(ShmSegments, AreSharedZeroAndGivenBackByTheLast) {
  auto nodes = ShmNode::create_local({0, 1, 2}, 8192);
  const uint64_t before = resident(*nodes[0]);
  {
    ShmSegments maker(*nodes[0]), second(*nodes[1]), third(*nodes[2]);
    EXPECT_TRUE(maker.shares(0));
    EXPECT_TRUE(maker.shares(2));
    EXPECT_FALSE(maker.shares(3));
    for (int round = 0; round < 3; ++round) {
      NodeSegment mine, yours, theirs;
      ASSERT_FALSE(maker.allocate(3'000'001, mine));
      ASSERT_FALSE(second.attach(mine.key, yours));
      ASSERT_FALSE(third.attach(mine.key, theirs));
      EXPECT_EQ(mine.bytes, 3'000'001u);
      EXPECT_EQ(yours.bytes, 3'000'001u);
      EXPECT_GE(resident(*nodes[0]), before + 3'000'001);
      EXPECT_TRUE(all_zero(mine));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(mine.data) % 4096, 0u);
      mine.data[3'000'000] = std::byte{7};
      EXPECT_EQ(yours.data[3'000'000], std::byte{7});
      theirs.data[0] = std::byte{8};
      EXPECT_EQ(mine.data[0], std::byte{8});
      const SegmentKey key = mine.key;
      if (round != 1) maker.release(mine);
      second.release(yours);
      EXPECT_TRUE(yours.empty());
      EXPECT_EQ(theirs.data[0], std::byte{8}) << "others still use it";
      third.release(theirs);
      maker.release(mine);  // an empty one: nothing happens
      EXPECT_LE(resident(*nodes[0]), before + 4096) << "all but the page that tells the maker";
      EXPECT_EQ(maker.live(), 0u);
      EXPECT_EQ(resident(*nodes[0]), before);
      EXPECT_TRUE(bool(second.attach(key, yours))) << "it is gone";
    }
  }
}

TEST(ShmSegments, ForgedKeysAreErrors) {
  auto nodes = ShmNode::create_local({0, 1}, 8192);
  ShmSegments maker(*nodes[0]), other(*nodes[1]);
  NodeSegment mine, attached;
  ASSERT_FALSE(maker.allocate(100, mine));
  const uint64_t at = mine.key.words[0];
  for (const SegmentKey key :
       {SegmentKey{}, SegmentKey{{0, 101}}, SegmentKey{{at + 1, 101}}, SegmentKey{{at, 100}}, SegmentKey{{at, 9000}},
        SegmentKey{{at + 4096, 101}}, SegmentKey{{at, ~uint64_t{0}}}, SegmentKey{{~uint64_t{0} - 4095, 101}},
        SegmentKey{{at + ShmSegments::kSpaceBytes, 101}}, SegmentKey{{at + 5 * ShmSegments::kSpaceBytes, 101}}}) {
    EXPECT_TRUE(bool(other.attach(key, attached))) << key.words[0] << " " << key.words[1];
    EXPECT_TRUE(attached.empty());
  }
  Rng rng(5);
  for (int i = 0; i < 2000; ++i) {
    SegmentKey key = mine.key;
    key.words[rng.below(2)] ^= uint64_t{1} << rng.below(64);
    EXPECT_TRUE(bool(other.attach(key, attached)));
  }
  ASSERT_FALSE(other.attach(mine.key, attached));
  other.release(attached);
  maker.release(mine);
  EXPECT_EQ(maker.live(), 0u);
}

TEST(ShmSegments, TooMuchIsAnErrorWithARemedy) {
  auto nodes = ShmNode::create_local({0, 1}, 8192);
  ShmSegments maker(*nodes[0]);
  NodeSegment made;
  for (const size_t bytes : {size_t{900} << 30, ~size_t{0}, size_t{1} << 62}) {
    Error error = maker.allocate(bytes, made);
    EXPECT_EQ(ErrorClass(error.error_class()), ErrorClass::no_mem) << error.text();
    EXPECT_TRUE(made.empty());
  }
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit low{1 << 20, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  Error error = maker.allocate(100, made);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_NE(error.text().find("ulimit -f"), std::string_view::npos) << error.text();
  EXPECT_EQ(maker.live(), 0u);
}

// Many segments of all sizes come and go, used by any of the ranks: none overlap, none are lost.
TEST(ShmSegments, RandomLives) {
  constexpr uint32_t kRanks = 3;
  auto nodes = ShmNode::create_local({0, 1, 2}, 8192);
  const uint64_t before = resident(*nodes[0]);
  std::vector<std::unique_ptr<ShmSegments>> all;
  for (auto& node : nodes) all.push_back(std::make_unique<ShmSegments>(*node));
  struct Held {
    NodeSegment of[kRanks];
    std::byte mark;
  };
  std::vector<Held> held;
  Rng rng(77);
  for (int step = 0; step < 400; ++step) {
    if (held.size() < 12 && rng.chance(1, 2)) {
      const uint32_t maker = uint32_t(rng.below(kRanks));
      Held& next = held.emplace_back();
      next.mark = std::byte(uint8_t(step + 1));
      ASSERT_FALSE(all[maker]->allocate(rng.below(uint64_t{1} << rng.below(22)), next.of[maker]));
      EXPECT_TRUE(all_zero(next.of[maker]));
      std::memset(next.of[maker].data, int(next.mark), next.of[maker].bytes);
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        if (rank != maker && rng.chance(2, 3)) {
          ASSERT_FALSE(all[rank]->attach(next.of[maker].key, next.of[rank]));
        }
      }
    } else if (!held.empty()) {
      Held& one = held[rng.below(held.size())];
      const uint32_t rank = uint32_t(rng.below(kRanks));
      for (size_t i = 0; i < one.of[rank].bytes; ++i) ASSERT_EQ(one.of[rank].data[i], one.mark);
      all[rank]->release(one.of[rank]);
      if (one.of[0].empty() && one.of[1].empty() && one.of[2].empty()) {
        std::swap(one, held.back());
        held.pop_back();
      }
    }
  }
  for (Held& one : held) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) all[rank]->release(one.of[rank]);
  }
  for (auto& segments : all) EXPECT_EQ(segments->live(), 0u);
  EXPECT_EQ(resident(*nodes[0]), before);
}

// Ranks as processes, joined over sockets as in a job. One of them dies by a signal while it has everything attached.
TEST(ShmSegments, ProcessesShareThem) {
  constexpr int kRanks = 4;
  test::Common& common = *make_common();
  const auto key = test::test_key(9);
  auto body = [&](int rank) {
    Error error;
    auto node = ShmNode::create(
        {rank, {0, 1, 2, 3}, key, 8192},
        [&] {
          common_fence(common, kRanks);
          return Error();
        },
        error);
    if (!node) return 2;
    ShmSegments segments(*node);
    constexpr size_t kBytes = 5 << 20;
    NodeSegment of[kRanks];
    if (segments.allocate(kBytes, of[rank])) return 3;
    common.words[2 * rank] = of[rank].key.words[0];
    common.words[2 * rank + 1] = of[rank].key.words[1];
    common_fence(common, kRanks);
    for (int peer = 0; peer < kRanks; ++peer) {
      const SegmentKey name{{common.words[2 * peer], common.words[2 * peer + 1]}};
      if (peer != rank && segments.attach(name, of[peer])) return 4;
    }
    for (int peer = 0; peer < kRanks; ++peer)
      std::memset(of[peer].data + size_t(rank) * kBytes / kRanks, 10 * rank + peer + 1, kBytes / kRanks);
    common_fence(common, kRanks);
    for (int writer = 0; writer < kRanks; ++writer) {
      for (size_t i = 0; i < kBytes / kRanks; ++i) {
        if (of[rank].data[size_t(writer) * kBytes / kRanks + i] != std::byte(10 * writer + rank + 1)) return 5;
      }
    }
    common_fence(common, kRanks);
    if (rank == 3) raise(SIGKILL);
    for (int peer = 0; peer < kRanks; ++peer) segments.release(of[peer]);
    return 0;
  };
  std::vector<pid_t> processes;
  for (int rank = 0; rank < kRanks; ++rank) {
    processes.push_back(fork());
    if (processes.back() == 0) {
      alarm(60);
      _exit(body(rank));
    }
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(processes[size_t(rank)], &status, 0), processes[size_t(rank)]);
    if (rank == 3) EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    else EXPECT_EQ(status, 0) << "rank " << rank;
  }
  munmap(&common, sizeof common);
}

class Files {
 public:
  Files() {
    char name[] = "/tmp/tern-free-memory-XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    root = std::string(name) + "/";
  }
  ~Files() { std::filesystem::remove_all(root); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + name).parent_path());
    std::ofstream(root + name) << text;
  }
  std::string root;
};

TEST(FreeMemory, TheHostsAndTheContainersLimitsHold) {
  EXPECT_GT(shm::free_memory_bytes(), 0u);
  Files files;
  EXPECT_EQ(shm::free_memory_bytes(files.root), ~uint64_t{0});
  files.write("proc/meminfo", "MemTotal:  9000 kB\nMemFree:  100 kB\nMemAvailable:  5000 kB\nSwapFree: 1 kB\n");
  EXPECT_EQ(shm::free_memory_bytes(files.root), 5'120'000u);
  files.write("proc/self/cgroup", "0::/job/step\n");
  files.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  EXPECT_EQ(shm::free_memory_bytes(files.root), 5'120'000u);
  files.write("sys/fs/cgroup/job/memory.max", "3000000\n");
  files.write("sys/fs/cgroup/job/memory.current", "2500000\n");
  files.write("sys/fs/cgroup/job/memory.stat",
              "anon 500000\nfile 2000000\ninactive_file 1000000\nactive_file 400000\n");
  EXPECT_EQ(shm::free_memory_bytes(files.root), 3'000'000u - 1'100'000u);
  files.write("sys/fs/cgroup/memory.max", "1000\n");
  files.write("sys/fs/cgroup/memory.current", "5000\n");
  EXPECT_EQ(shm::free_memory_bytes(files.root), 0u);
}

}  // namespace
}  // namespace tern
