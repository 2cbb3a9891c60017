// The mutex of a rank's threads of which one may come and go with plain stores (progress/biased_mutex.h), with real
// threads. Interleavings: tests/explore/biased_mutex_test.cc.
#include "progress/biased_mutex.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

namespace tern::test {
namespace {

void visit(BiasedMutex& mutex, int times, long& inside) {
  const std::thread::id me = std::this_thread::get_id();
  for (int i = 0; i < times; ++i) {
    mutex.lock(me);
    ++inside;
    mutex.unlock();
  }
}

TEST(BiasedMutex, WhoComesOftenGetsATermThatAnotherEnds) {
  if (!register_barrier_everywhere()) GTEST_SKIP() << "the kernel has no membarrier, or a checker cannot see it";
  BiasedMutex mutex;
  long inside = 0;
  visit(mutex, 5000, inside);
  EXPECT_FALSE(mutex.biased()) << "it was not allowed";
  mutex.allow_terms(true);
  visit(mutex, 1100, inside);
  EXPECT_TRUE(mutex.biased());
  std::thread([&] {
    visit(mutex, 1, inside);
    EXPECT_FALSE(mutex.biased());
    visit(mutex, 1100, inside);
    EXPECT_FALSE(mutex.biased()) << "the second term needs more";
    visit(mutex, 1100, inside);
    EXPECT_TRUE(mutex.biased());
  }).join();
  visit(mutex, 1, inside);
  EXPECT_FALSE(mutex.biased());
  EXPECT_EQ(inside, 5000 + 1100 + 1 + 2 * 1100 + 1);
}

TEST(BiasedMutex, NeverTwoInside) {
  const bool allowed = register_barrier_everywhere();
  for (int turn = 0; turn < 100; ++turn) {
    BiasedMutex mutex(HandOverMutex::Patience(), 3);
    mutex.allow_terms(allowed);
    long inside = 0;  // plain: lost additions are two inside
    std::barrier begin(3);
    std::vector<std::thread> all;
    for (int i = 0; i < 3; ++i) {
      all.emplace_back([&, i] {
        begin.arrive_and_wait();
        for (int burst = 0; burst < 20; ++burst) {
          visit(mutex, 10 << (burst % 6), inside);
          if (i != 0) std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : all) thread.join();
    EXPECT_EQ(inside, 3L * 10 * (3 * 63 + 1 + 2));
    EXPECT_FALSE(mutex.wanted());
  }
}

}  // namespace
}  // namespace tern::test
