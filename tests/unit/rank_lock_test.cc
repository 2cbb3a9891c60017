// The lock between one application thread and the event thread (progress/rank_lock.h): never both inside, and the
// thread pays for a barrier on all cores only when it must.
#include "progress/driving.h"

#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace tern::test {
namespace {

struct Payments {
  int made = 0;
  void operator()() { ++made; }
};

TEST(RankLock, WhoIsExpectedPaysNothing) {
  Driving lock;
  Payments payments;
  auto comes = [&] {
    if (!lock.enter_as_helper(payments)) return false;
    lock.leave_as_helper();
    return true;
  };
  EXPECT_TRUE(comes());
  EXPECT_EQ(payments.made, 1);
  lock.enter();
  lock.expect_helper(true);
  lock.leave();
  EXPECT_TRUE(comes());
  EXPECT_EQ(payments.made, 1);
  lock.enter();
  EXPECT_FALSE(comes());
  EXPECT_EQ(payments.made, 2) << "what it has seen may be old";
  lock.expect_helper(false);
  lock.leave();
  EXPECT_TRUE(comes());
  EXPECT_EQ(payments.made, 3);
}

// A window's creation makes the event thread in the middle of a call; without membarrier that needs the mutex.
TEST(RankLock, EnabledInsideItIsHeldUntilTheCallLeaves) {
  Driving lock;
  lock.enter();
  lock.enter();
  lock.enable();
  std::atomic<bool> inside{false};
  std::thread other([&] {
    lock.acquire();
    inside = true;
    lock.release();
  });
  lock.leave();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(inside);
  lock.leave();
  other.join();
  EXPECT_TRUE(inside);
  lock.enter();
  lock.leave();
}

// Both come and go as fast as they can; whoever is inside now and then changes whether the thread is expected. The
// application's stores are held up by others that miss the caches, so that its word of being inside comes late to the
// other core.
TEST(RankLock, NeverBothInside) {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0)
    GTEST_SKIP() << "the kernel has no membarrier";
  constexpr size_t kFarBytes = 64 << 20, kStride = 4096 + 64;
  const std::unique_ptr<char[]> far(new char[kFarBytes]());
  Driving lock;
  std::atomic<bool> thread_inside{false}, stop{false};
  int helped = 0;
  std::thread thread([&] {
    for (uint32_t turn = 0; !stop; ++turn) {
      auto pay = [] { syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); };
      if (!lock.enter_as_helper(pay)) continue;
      ++helped;
      thread_inside.store(true, std::memory_order_relaxed);
      for (int i = 0; i < 5; ++i) cpu_pause();
      if (turn % 64 == 0) lock.expect_helper(turn % 256 != 0);
      thread_inside.store(false, std::memory_order_relaxed);
      lock.leave_as_helper();
      for (uint32_t i = 0; i < turn % 16; ++i) cpu_pause();
    }
  });
  int together = 0;
  size_t at = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (uint32_t turn = 0; turn % 64 != 0 || std::chrono::steady_clock::now() < end; ++turn) {
    for (int i = 0; i < 8; ++i) far[at = (at + kStride) % kFarBytes] = char(turn);
    lock.enter();
    for (int i = 0; i < 5; ++i) together += thread_inside.load(std::memory_order_relaxed);
    if (turn % 97 == 0) lock.expect_helper(turn % 4 != 0);
    lock.leave();
  }
  stop = true;
  thread.join();
  EXPECT_EQ(together, 0);
  EXPECT_GT(helped, 1);
}

}  // namespace
}  // namespace tern::test
