// The mutex of a rank's threads (progress/hand_over_mutex.h) with real threads: exclusion, and that nobody is left out.
// Interleavings: tests/explore/hand_over_mutex_test.cc.
#include "progress/hand_over_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

namespace tern::test {
namespace {

using Patience = HandOverMutex::Patience;

void until(const auto& condition) {
  while (!condition()) std::this_thread::yield();
}

void come_and_go(const Patience& patience, int threads, int visits) {
  HandOverMutex mutex(patience);
  long inside = 0;  // plain: lost additions are two inside
  std::barrier begin(threads);
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      begin.arrive_and_wait();
      for (int visit = 0; visit < visits; ++visit) {
        if (visit % 16 == 0) mutex.lock_after_others();
        else mutex.lock();
        ++inside;
        mutex.unlock();
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(inside, long{threads} * visits);
  EXPECT_FALSE(mutex.wanted());
  EXPECT_EQ(mutex.reservations(), 0u);
}

TEST(HandOverMutex, NeverTwoInside) {
  come_and_go(Patience(), 2, 1'000'000);
  come_and_go(Patience(), 4, 200'000);
}

TEST(HandOverMutex, NeverTwoInsideWhereAllSleep) {
  come_and_go({.looks = 0, .reserved_looks = 0, .yields = 0}, 4, 50'000);
}

/// Threads that reserve the mutex at once, and keep it until they are told.
struct Reserving {
  explicit Reserving(uint32_t threads) {
    mutex.lock();
    for (uint32_t i = 0; i < threads; ++i) {
      all.emplace_back([this] {
        mutex.lock();
        const uint32_t before = had_it.fetch_add(1);
        until([&] { return told > before; });
        mutex.unlock();
      });
    }
    until([&] { return mutex.reservations() == threads; });
  }
  ~Reserving() {
    for (std::thread& thread : all) thread.join();
  }
  HandOverMutex mutex{Patience{.looks = 0, .reserved_looks = ~uint32_t{0}, .yields = 0}};
  std::atomic<uint32_t> had_it{0}, told{0};
  std::vector<std::thread> all;
};

TEST(HandOverMutex, IsKeptForWhoHasReservedIt) {
  for (int i = 0; i < 30; ++i) {
    Reserving waiting(1);
    waiting.mutex.unlock();
    EXPECT_FALSE(waiting.mutex.try_lock());
    waiting.told = 1;
  }
}

TEST(HandOverMutex, WhoGetsItTakesBackItsOwnReservationOnly) {
  for (int i = 0; i < 10; ++i) {
    Reserving waiting(2);
    waiting.mutex.unlock();
    until([&] { return waiting.had_it == 1; });
    EXPECT_EQ(waiting.mutex.reservations(), 1u);
    waiting.told = 1;
    EXPECT_FALSE(waiting.mutex.try_lock());
    until([&] { return waiting.had_it == 2; });
    EXPECT_EQ(waiting.mutex.reservations(), 0u);
    waiting.told = 2;
  }
}

/// Who takes it again at once does not keep out who sleeps.
TEST(HandOverMutex, NobodyIsLeftOut) {
  HandOverMutex mutex;
  std::atomic<bool> stop{false};
  std::vector<std::thread> greedy;
  for (int i = 0; i < 2; ++i) {
    greedy.emplace_back([&] {
      while (!stop) {
        mutex.lock();
        for (int pause = 0; pause < 20; ++pause) cpu_pause();
        mutex.unlock();
      }
    });
  }
  const auto began = std::chrono::steady_clock::now();
  for (int visit = 0; visit < 50; ++visit) {
    mutex.lock();
    mutex.unlock();
    std::this_thread::yield();
  }
  // 50 times at most some time slices of the two others, where there is one core for all.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  stop = true;
  for (std::thread& thread : greedy) thread.join();
}

}  // namespace
}  // namespace tern::test
