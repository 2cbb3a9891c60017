// Registrations against memory that changes hands between threads: one thread gives a buffer back, another gets the
// same address while that call is still in the kernel, and asks for a registration. What it gets must be new: the kept
// one pins pages that are not there any more. The kernel lets a new mapping have the address before it reports the
// change, so this is about a gap of a few microseconds, and takes many rounds.
//
// TERN_TEST_ROUNDS: more of them (for each way and size), on all cores and on one.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "fabric/registration/registration_cache.h"

namespace tern {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSizes[] = {64 << 10, 100'000, 1 << 20, 16 << 20};

/// An adapter that only registers.
class PlainAdapter final : public MemoryRegistrar {
 public:
  std::unique_ptr<RegisteredMemory> register_memory(void*, size_t, const MemoryRights&) override {
    return std::make_unique<RegisteredMemory>();
  }
};

constexpr int kAccess = PROT_READ | PROT_WRITE;

void* map(size_t bytes) { return mmap(nullptr, bytes, kAccess, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
/// MAP_FAILED while something else is there.
void* map_at(void* where, size_t bytes) {
  return mmap(where, bytes, kAccess, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

/// How a thread gives memory back, and another gets it again.
struct Way {
  const char* name;
  void* (*get)(size_t bytes);
  void (*give_back)(void* memory, size_t bytes);
  /// Gets (part of) the memory again: MAP_FAILED: not yet.
  void* (*get_again)(void* memory, size_t bytes);
};

const Way kUnmap{"munmap", map, [](void* memory, size_t bytes) { munmap(memory, bytes); }, map_at};

const Way kHole{
    "munmap of the middle", map,
    [](void* memory, size_t bytes) { munmap(static_cast<std::byte*>(memory) + kPage, bytes - 2 * kPage); },
    [](void* memory, size_t bytes) { return map_at(static_cast<std::byte*>(memory) + kPage, bytes - 2 * kPage); }};

const Way kMove{"mremap", map,
                [](void* memory, size_t bytes) {
                  void* elsewhere = map(bytes);
                  mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
                  munmap(elsewhere, bytes);
                },
                map_at};

/// A block with a mapping of its own, which `free` gives back to the kernel. A block of the heap's free space, which
/// malloc prefers, would stay mapped; such blocks are taken out of the way, for good.
void* get_mapped_block(size_t bytes) {
  for (;;) {
    void* memory = malloc(bytes);
    constexpr size_t kIsMapped = 2;  // glibc: in the word before the block
    if (*reinterpret_cast<const size_t*>(reinterpret_cast<uintptr_t>(memory) - sizeof(size_t)) & kIsMapped)
      return memory;
    static std::vector<void*> kept;
    kept.push_back(memory);
  }
}

const Way kFree{"free", get_mapped_block, [](void* memory, size_t) { free(memory); },
                [](void* memory, size_t bytes) {
                  void* another = malloc(bytes);
                  if (another == memory) return another;
                  free(another);
                  return MAP_FAILED;
                }};

class RegistrationRaceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!watch) GTEST_SKIP() << "this kernel (or container) has no userfaultfd: nothing is kept";
    if (const char* wanted = std::getenv("TERN_TEST_ROUNDS")) rounds = rounds_on_one_core = std::atoi(wanted);
    sched_getaffinity(0, sizeof cores, &cores);
  }
  void TearDown() override { sched_setaffinity(0, sizeof cores, &cores); }

  bool hits(void* memory, size_t bytes) {
    const uint64_t before = cache.hits();
    Registration* registration = cache.acquire(memory, bytes, {.remote_read = true, .remote_write = true});
    EXPECT_NE(registration, nullptr);
    cache.release(*registration);
    return cache.hits() > before;
  }

  /// Whoever gets an address again must find no registration for it.
  void run(const Way& way, size_t bytes) {
    std::atomic<void*> given{nullptr};
    std::atomic<bool> over{false};
    std::thread giver([&] {
      while (!over.load()) {
        if (void* memory = given.load()) {
          way.give_back(memory, bytes);
          given.store(nullptr);
        } else {
          std::this_thread::yield();
        }
      }
    });
    int stale = 0, got_again = 0;
    for (int round = 0; round < rounds; ++round) {
      void* memory = way.get(bytes);
      ASSERT_NE(memory, MAP_FAILED);
      hits(memory, bytes);
      given.store(memory);
      void* again;
      bool giving = true;  // the address may be ours before the giver is back from its call, and that is the point
      while ((again = way.get_again(memory, bytes)) == MAP_FAILED && giving) {
        giving = given.load() != nullptr;
        std::this_thread::yield();
      }
      if (again != MAP_FAILED) {
        ++got_again;
        stale += hits(memory, bytes);
      }
      while (given.load()) std::this_thread::yield();
      if (&way == &kFree) {
        if (again != MAP_FAILED) free(again);
      } else {
        munmap(memory, bytes);
      }
    }
    over.store(true);
    giver.join();
    EXPECT_EQ(stale, 0) << way.name << ", " << bytes << " bytes: of " << got_again << " addresses used again";
    EXPECT_GT(got_again, 0) << way.name;
  }

  /// With threads on several cores, then all on one.
  template <typename Rounds>
  void on_many_cores_and_one(Rounds rounds_of_a_size) {
    for (bool one_core : {false, true}) {
      SCOPED_TRACE(one_core ? "one core" : "all cores");
      if (one_core) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        sched_setaffinity(0, sizeof one, &one);  // threads that are made from now on have it, too
      }
      if (one_core) rounds = rounds_on_one_core;
      for (size_t bytes : kSizes) rounds_of_a_size(bytes);
    }
  }
  void run_all_sizes(const Way& way) {
    on_many_cores_and_one([&](size_t bytes) { run(way, bytes); });
  }

  int rounds = 60, rounds_on_one_core = 10;  // there each round is some changes of threads
  cpu_set_t cores;
  PlainAdapter adapter;
  std::unique_ptr<MappingMonitor> watch = MappingMonitor::create();
  RegistrationCache cache{adapter, watch ? Keep::watched : Keep::nothing, watch.get(), 1 << 26};
};

TEST_F(RegistrationRaceTest, Unmapped) { run_all_sizes(kUnmap); }
TEST_F(RegistrationRaceTest, UnmappedInTheMiddle) { run_all_sizes(kHole); }
TEST_F(RegistrationRaceTest, MovedAway) { run_all_sizes(kMove); }

TEST_F(RegistrationRaceTest, Freed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's allocator keeps what is freed for a while";
#endif
  mallopt(M_MMAP_THRESHOLD, 64 << 10);  // stays so, instead of growing with what is freed
  run_all_sizes(kFree);
}

// madvise has returned when the memory's owner uses it again: the kernel drops the pages after it has reported.
TEST_F(RegistrationRaceTest, DroppedByAdvice) {
  on_many_cores_and_one([&](size_t bytes) {
    std::atomic<void*> given{nullptr};
    std::atomic<bool> over{false};
    std::thread giver([&] {
      while (!over.load()) {
        if (void* memory = given.load()) {
          madvise(memory, bytes, MADV_DONTNEED);
          given.store(nullptr);
        } else {
          std::this_thread::yield();
        }
      }
    });
    int stale = 0, hit_again = 0;
    for (int round = 0; round < rounds; ++round) {
      void* memory = map(bytes);
      hits(memory, bytes);
      given.store(memory);
      while (given.load()) std::this_thread::yield();
      stale += hits(memory, bytes);
      hit_again += hits(memory, bytes);
      munmap(memory, bytes);
    }
    over.store(true);
    giver.join();
    EXPECT_EQ(stale, 0) << bytes << " bytes";
    EXPECT_EQ(hit_again, rounds) << bytes << " bytes";
  });
}

// Children come and go, each with a copy of everything, while memory changes hands.
TEST_F(RegistrationRaceTest, UnmappedBesideForks) {
  std::atomic<bool> over{false};
  std::atomic<int> forks{0};
  std::thread forker([&] {
    while (!over.load()) {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      waitpid(child, nullptr, 0);
      ++forks;
    }
  });
  run_all_sizes(kUnmap);
  over.store(true);
  forker.join();
  EXPECT_GT(forks.load(), 0);
}

// What a forked child gives back is its own, and it does not wait for the parent's watch; the parent's pinned pages
// stay the parent's (IbvHca takes care of that).
TEST_F(RegistrationRaceTest, AForkedChildChangesNothing) {
  for (int round = 0; round < rounds / 10; ++round) {
    void* memory = map(64 * kPage);
    hits(memory, 64 * kPage);
    pid_t child = fork();
    if (child == 0) {
      munmap(memory, 32 * kPage);
      _exit(map_at(memory, 32 * kPage) == memory ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
    ASSERT_TRUE(hits(memory, 64 * kPage));
    munmap(memory, 64 * kPage);
    ASSERT_EQ(map_at(memory, 64 * kPage), memory);
    ASSERT_FALSE(hits(memory, 64 * kPage)) << "the watch goes on after a fork";
    munmap(memory, 64 * kPage);
  }
}

}  // namespace
}  // namespace tern
