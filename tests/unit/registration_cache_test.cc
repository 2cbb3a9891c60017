// Registrations of user memory: found again, joined, bounded, and never found for memory that was given back, in all
// the ways in which a program (or its allocator) gives memory back.
#include "fabric/registration/registration_cache.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

namespace tern {
namespace {

constexpr size_t kPage = 4096;
// Of a receive that peers may also read, and of a send.
constexpr MemoryRights kWritable{.local_write = true, .remote_read = true, .remote_write = true},
    kReadable{.local_write = false, .remote_read = true}, kLocal{.local_write = true};

/// An adapter that counts.
class CountingAdapter final : public MemoryRegistrar {
 public:
  struct Region final : RegisteredMemory {
    Region(CountingAdapter& its_owner, uint64_t b, uint64_t e, const MemoryRights& r)
        : owner(its_owner), begin(b), end(e), rights(r) {
      owner.regions.insert(this);
    }
    ~Region() override { owner.regions.erase(this); }
    CountingAdapter& owner;
    uint64_t begin, end;
    MemoryRights rights;
  };
  std::unique_ptr<RegisteredMemory> register_memory(void* address, size_t bytes, const MemoryRights& rights) override {
    if (pinned() + bytes > limit) return nullptr;
    uint64_t begin = reinterpret_cast<uintptr_t>(address);
    return std::make_unique<Region>(*this, begin, begin + bytes, rights);
  }
  uint64_t pinned() const {
    uint64_t bytes = 0;
    for (const Region* region : regions) bytes += region->end - region->begin;
    return bytes;
  }
  std::set<Region*> regions;
  uint64_t limit = ~uint64_t{0};
};

std::byte* map(size_t bytes, void* where = nullptr) {
  void* memory =
      mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return static_cast<std::byte*>(memory);
}

class RegistrationCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!watch) GTEST_SKIP() << "this kernel (or container) has no userfaultfd: nothing is kept";
  }
  /// Whether an acquire is answered from the table.
  bool is_kept(const void* address, size_t bytes, const MemoryRights& rights = kWritable) {
    uint64_t before = cache.hits();
    Registration* registration = cache.acquire(address, bytes, rights);
    EXPECT_NE(registration, nullptr);
    cache.release(*registration);
    return cache.hits() > before;
  }
  CountingAdapter adapter;
  std::unique_ptr<MappingMonitor> watch = MappingMonitor::create();
  RegistrationCache cache{adapter, watch ? Keep::watched : Keep::nothing, watch.get(), 1 << 24};
};

TEST_F(RegistrationCacheTest, WhatIsKeptIsFoundAgainAlsoInPart) {
  std::byte* memory = map(64 * kPage);
  EXPECT_FALSE(is_kept(memory + 100, 10 * kPage));
  EXPECT_TRUE(is_kept(memory + 100, 10 * kPage));
  EXPECT_TRUE(is_kept(memory + 5000, 30));
  EXPECT_FALSE(is_kept(memory + 8 * kPage, 10 * kPage)) << "only its beginning is";
  EXPECT_TRUE(is_kept(memory + 100, 18 * kPage - 100)) << "the two have become one";
  EXPECT_EQ(adapter.regions.size(), 1u);
  EXPECT_FALSE(is_kept(memory, 8)) << "peers get no more than was asked for";
  EXPECT_FALSE(is_kept(memory + 20 * kPage + 100, 8, kLocal));
  EXPECT_TRUE(is_kept(memory + 20 * kPage, 8, kLocal)) << "for this rank alone whole pages are registered";
  munmap(memory, 64 * kPage);
}

TEST_F(RegistrationCacheTest, ReadOnlyRegistrationsDoNotServeWriters) {
  std::byte* memory = map(kPage);
  EXPECT_FALSE(is_kept(memory, 100, kReadable));
  EXPECT_TRUE(is_kept(memory, 100, kReadable));
  EXPECT_FALSE(is_kept(memory, 100, kWritable));
  EXPECT_TRUE(is_kept(memory, 100, kReadable));
  EXPECT_TRUE(is_kept(memory, 100, kLocal)) << "what this rank does is allowed by any that lets it write";
  munmap(memory, kPage);
}

// A peer that may read what is sent may not write it, also after the same memory was received into.
TEST_F(RegistrationCacheTest, PeersGetJustTheRightsThatAnOperationNeeds) {
  std::byte* memory = map(kPage);
  for (const MemoryRights& rights : {kWritable, kReadable, kLocal, MemoryRights{.local_write = false}}) {
    Registration* registration = cache.acquire(memory + 8, 100, rights);
    const MemoryRights given = static_cast<CountingAdapter::Region&>(*registration->memory).rights;
    if (rights.remote_read || rights.remote_write) {
      EXPECT_EQ(given.remote_read, rights.remote_read);
      EXPECT_EQ(given.remote_write, rights.remote_write);
      EXPECT_EQ(given.remote_atomic, rights.remote_atomic);
      EXPECT_EQ(registration->begin, reinterpret_cast<uintptr_t>(memory) + 8);
      EXPECT_EQ(registration->end, registration->begin + 100);
    }
    EXPECT_TRUE(given.local_write || !rights.local_write);
    cache.release(*registration);
  }
  munmap(memory, kPage);
}

TEST_F(RegistrationCacheTest, UnmappedAndMappedAgainAtTheSameAddressIsNotFound) {
  std::byte* memory = map(16 * kPage);
  EXPECT_FALSE(is_kept(memory, 16 * kPage));
  munmap(memory, 16 * kPage);
  EXPECT_EQ(map(16 * kPage, memory), memory);
  EXPECT_FALSE(is_kept(memory, 16 * kPage));
  EXPECT_TRUE(is_kept(memory, 16 * kPage));
  munmap(memory, 16 * kPage);
}

TEST_F(RegistrationCacheTest, EveryWayOfGivingMemoryBackIsNoticed) {
  std::byte* memory = map(16 * kPage);
  auto again = [&](const char* how) {
    EXPECT_FALSE(is_kept(memory, 16 * kPage)) << how;
    EXPECT_TRUE(is_kept(memory, 16 * kPage)) << how;
  };
  again("first");
  munmap(memory + 3 * kPage, kPage);
  map(kPage, memory + 3 * kPage);
  again("a hole in the middle");
  map(16 * kPage, memory);
  again("mapped over");
  madvise(memory + kPage, kPage, MADV_DONTNEED);
  again("MADV_DONTNEED, as allocators do");
  void* elsewhere = map(16 * kPage);
  EXPECT_EQ(mremap(memory, 16 * kPage, 16 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere), elsewhere);
  map(16 * kPage, memory);
  again("moved away");
  std::thread([&] { munmap(memory, kPage), map(kPage, memory); }).join();
  again("by another thread");
  munmap(memory, 16 * kPage);
}

// Its pages go without a word when somebody shortens the file behind it.
TEST_F(RegistrationCacheTest, SharedMemoryIsNotKept) {
  int fd = memfd_create("shared", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 16 * kPage), 0);
  void* shared = mmap(nullptr, 16 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  memset(shared, 1, 16 * kPage);
  EXPECT_FALSE(is_kept(shared, 16 * kPage));
  EXPECT_FALSE(is_kept(shared, 16 * kPage));
  EXPECT_TRUE(adapter.regions.empty());
  munmap(shared, 16 * kPage);
  close(fd);
}

// A thread that gives memory back is held until the watch has been told; in between nothing kept is trusted, and
// nothing waits.
TEST_F(RegistrationCacheTest, WhileAChangeIsOnItsWayNothingKeptIsUsed) {
  std::byte* memory = map(16 * kPage);
  EXPECT_FALSE(is_kept(memory, 16 * kPage));
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      std::byte* theirs = map(kPage);
      watch->watch(reinterpret_cast<uint64_t>(theirs), reinterpret_cast<uint64_t>(theirs + kPage));
      munmap(theirs, kPage);
    }
  });
  int found = 0, passed_by = 0;
  while (found < 1000 || passed_by == 0) ++(is_kept(memory, 16 * kPage) ? found : passed_by);
  stop = true;
  other.join();
  is_kept(memory, 16 * kPage);  // more changes than can be listed have perhaps dropped it
  EXPECT_TRUE(is_kept(memory, 16 * kPage));
  EXPECT_EQ(adapter.regions.size(), 1u) << "what was made in passing is gone";
  munmap(memory, 16 * kPage);
}

TEST_F(RegistrationCacheTest, FreedAllocationsAreDropped) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps what is freed for a while";
#endif
  for (int round = 0; round < 20; ++round) {
    auto* large = static_cast<std::byte*>(malloc(1 << 20));  // a mapping of its own at first, then in the heap
    EXPECT_FALSE(is_kept(large, 1 << 20)) << "round " << round;
    free(large);
    malloc_trim(0);
  }
  cache.release(*cache.acquire(&cache, 8, kWritable));  // drops what changed
  EXPECT_LE(adapter.pinned(), uint64_t{1} << 21);
}

TEST_F(RegistrationCacheTest, MemoryInUseOutlivesItsUnmapping) {
  std::byte* memory = map(4 * kPage);
  Registration* used = cache.acquire(memory, 4 * kPage, kWritable);
  munmap(memory, 4 * kPage);
  map(4 * kPage, memory);
  Registration* fresh = cache.acquire(memory, 4 * kPage, kWritable);
  EXPECT_NE(fresh, used);
  EXPECT_EQ(adapter.regions.size(), 2u);
  cache.release(*used);
  EXPECT_EQ(adapter.regions.size(), 1u);
  cache.release(*fresh);
  EXPECT_TRUE(is_kept(memory, kPage));
  munmap(memory, 4 * kPage);
}

TEST_F(RegistrationCacheTest, MoreChangesThanCanBeListedDropEverything) {
  std::byte* memory = map(4 * kPage);
  EXPECT_FALSE(is_kept(memory, 4 * kPage));
  std::byte* other = map(2000 * kPage);
  ASSERT_TRUE(watch->watch(reinterpret_cast<uint64_t>(other), reinterpret_cast<uint64_t>(other + 2000 * kPage)));
  for (int i = 0; i < 2000; i += 2) munmap(other + i * kPage, kPage);
  EXPECT_FALSE(is_kept(memory, 4 * kPage));
  munmap(other, 2000 * kPage);
  munmap(memory, 4 * kPage);
}

TEST_F(RegistrationCacheTest, KeepsNoMoreThanItMayAndMakesRoomWhenPinningFails) {
  RegistrationCache small(adapter, Keep::watched, watch.get(), 8 * kPage);
  std::byte* memory = map(64 * kPage);
  for (int i = 0; i < 8; ++i) small.release(*small.acquire(memory + i * 8 * kPage, 4 * kPage, kWritable));
  EXPECT_EQ(adapter.pinned(), 8 * kPage);
  adapter.limit = 8 * kPage;
  Registration* large = small.acquire(memory, 6 * kPage, kWritable);
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(small.acquire(memory + 32 * kPage, 6 * kPage, kWritable), nullptr) << "the limit is the adapter's";
  small.release(*large);
  munmap(memory, 64 * kPage);
}

TEST(RegistrationCache, WhatIsInUseGoesWithTheCache) {
  CountingAdapter adapter;
  std::byte* memory = map(8 * kPage);
  for (Keep keep : {Keep::nothing, Keep::trusted}) {
    RegistrationCache cache(adapter, keep, nullptr, 1 << 24);
    ASSERT_NE(cache.acquire(memory, 100, kWritable), nullptr);
    ASSERT_NE(cache.acquire(memory, 2 * kPage, kWritable), nullptr);  // takes the place of the first in the table
    EXPECT_EQ(adapter.regions.size(), 2u);
  }
  EXPECT_TRUE(adapter.regions.empty());
  munmap(memory, 8 * kPage);
}

TEST(RegistrationCache, WithoutAWatchNothingIsKept) {
  CountingAdapter adapter;
  RegistrationCache cache(adapter, Keep::nothing, nullptr, 1 << 24);
  char memory[100];
  Registration* first = cache.acquire(memory, sizeof memory, kWritable);
  Registration* second = cache.acquire(memory, sizeof memory, kWritable);
  EXPECT_NE(first, second);
  cache.release(*first);
  cache.release(*second);
  EXPECT_TRUE(adapter.regions.empty());
  EXPECT_EQ(cache.hits(), 0u);
}

}  // namespace
}  // namespace tern
