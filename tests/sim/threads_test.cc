// Threads of a simulated rank: their turns, waits, deadlines and ends; one and the same order for a seed.
#include "sim/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "progress/hand_over_mutex.h"
#include "sim/machine.h"

namespace tern::sim {
namespace {

Report run_alone(uint64_t seed, const std::function<void(Machine::Rank&)>& body) {
  WorldOptions options;
  options.ranks = 1;
  options.seed = seed;
  Machine machine(std::move(options));
  return machine.run(body);
}

std::string turns_of(uint64_t seed) {
  std::string turns;
  const Report report = run_alone(seed, [&](Machine::Rank& rank) {
    Threads& threads = rank.strand.threads();
    std::vector<Threads::Thread*> all;
    for (char name : {'a', 'b', 'c'}) {
      all.push_back(&threads.start([&turns, &threads, name]() -> void* {
        for (int i = 0; i < 5; ++i) {
          turns += name;
          threads.pass();
        }
        return nullptr;
      }));
    }
    void* result = nullptr;
    for (Threads::Thread* one : all) EXPECT_TRUE(threads.join(one, result));
    EXPECT_FALSE(threads.join(all[0], result));
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  return turns;
}

TEST(Threads, TurnsAreDrawnFromTheSeed) {
  EXPECT_EQ(turns_of(7).size(), 15u);
  EXPECT_EQ(turns_of(7), turns_of(7));
  int different = 0;
  for (uint64_t seed = 8; seed < 16; ++seed) different += turns_of(seed) != turns_of(7);
  EXPECT_GE(different, 7);
}

TEST(Threads, AThreadReturnsItsResultAndKnowsItself) {
  const Report report = run_alone(1, [](Machine::Rank& rank) {
    Threads& threads = rank.strand.threads();
    EXPECT_EQ(threads.self(), nullptr);
    int value = 0;
    const Threads::Thread* seen = nullptr;
    Threads::Thread& one = threads.start([&]() -> void* {
      seen = threads.self();
      EXPECT_EQ(threads.number(), 1u);
      return &value;
    });
    void* result = nullptr;
    EXPECT_TRUE(threads.join(&one, result));
    EXPECT_EQ(result, &value);
    EXPECT_EQ(seen, &one);
    EXPECT_EQ(threads.number(), 0u);
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(Threads, WhoWaitedFirstIsWokenFirst) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Report report = run_alone(seed, [](Machine::Rank& rank) {
      Threads& threads = rank.strand.threads();
      std::string order, woken;
      int place = 0, gone = 0;
      for (char name : {'a', 'b', 'c'}) {
        threads.detach(&threads.start([&, name]() -> void* {
          order += name;
          EXPECT_TRUE(threads.wait(&place));
          woken += name;
          ++gone;
          return nullptr;
        }));
      }
      while (order.size() != 3) threads.pass();
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(threads.wake(&place, 1), 1u);
        while (gone <= i) threads.pass();
      }
      EXPECT_EQ(threads.wake(&place, 1), 0u);
      EXPECT_EQ(woken, order);
    });
    EXPECT_TRUE(report.ok()) << report.failure;
  }
}

TEST(Threads, ADeadlineEndsAWait) {
  const Report report = run_alone(1, [](Machine::Rank& rank) {
    Threads& threads = rank.strand.threads();
    const int place = 0;
    EXPECT_FALSE(threads.wait(&place, rank.strand.now_ns() + 5000));
    EXPECT_GE(rank.strand.now_ns(), 5000u);
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// A sleep of the rank (for messages) is one thread's; the others run meanwhile.
TEST(Threads, OthersRunWhileOneSleepsForMessages) {
  const Report report = run_alone(3, [](Machine::Rank& rank) {
    Threads& threads = rank.strand.threads();
    int rounds = 0;
    bool ended = false;
    Threads::Thread& one = threads.start([&]() -> void* {
      while (!ended) {
        ++rounds;
        rank.strand.charge_ns(100);
        threads.pass();
      }
      return nullptr;
    });
    rank.strand.block(rank.strand.now_ns() + 100'000, "waiting");
    EXPECT_GE(rank.strand.now_ns(), 100'000u);
    ended = true;
    EXPECT_GT(rounds, 10);
    void* result = nullptr;
    EXPECT_TRUE(threads.join(&one, result));
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(Threads, AWakeUpReachesTheThreadThatSleeps) {
  const Report report = run_alone(3, [](Machine::Rank& rank) {
    Threads& threads = rank.strand.threads();
    Threads::Thread& one = threads.start([&]() -> void* {
      rank.strand.charge_ns(1000);
      rank.strand.wake(0);
      return nullptr;
    });
    rank.strand.block(kNever_ns, "waiting");
    void* result = nullptr;
    EXPECT_TRUE(threads.join(&one, result));
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(Threads, ThreadsThatWaitForEachOtherAreADeadlock) {
  const Report report = run_alone(1, [](Machine::Rank& rank) {
    Threads& threads = rank.strand.threads();
    const int place = 0;
    threads.start([&]() -> void* {
      threads.wait(&place);
      return nullptr;
    });
    threads.await_others();
  });
  EXPECT_TRUE(report.deadlock);
  EXPECT_NE(report.failure.find("its threads wait for each other"), std::string::npos) << report.failure;
}

TEST(Threads, ALeaverEndsOnTheFirstThreadsStack) {
  bool left = false;
  const Report report = run_alone(1, [&](Machine::Rank& rank) {
    Threads& threads = rank.strand.threads();
    threads.start([&]() -> void* {
      threads.leave_by([&] {
        left = true;
        throw std::runtime_error("over");
      });
    });
    threads.await_others();
  });
  EXPECT_TRUE(left);
  EXPECT_NE(report.failure.find("over"), std::string::npos) << report.failure;
}

// The library's own mutex, through the C library's calls that are led to the threads (sim/thread_calls.cc).
TEST(Threads, AMutexOfTheLibraryExcludes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Report report = run_alone(seed, [](Machine::Rank& rank) {
      Threads& threads = rank.strand.threads();
      HandOverMutex mutex({.looks = 2, .reserved_looks = 2, .yields = 1});
      int inside = 0, most = 0, entries = 0;
      std::vector<Threads::Thread*> all;
      for (int i = 0; i < 4; ++i) {
        all.push_back(&threads.start([&]() -> void* {
          for (int n = 0; n < 20; ++n) {
            mutex.lock();
            most = std::max(most, ++inside);
            threads.pass();
            ++entries;
            --inside;
            mutex.unlock();
            threads.may_pass();
          }
          return nullptr;
        }));
      }
      void* result = nullptr;
      for (Threads::Thread* one : all) EXPECT_TRUE(threads.join(one, result));
      EXPECT_EQ(most, 1);
      EXPECT_EQ(entries, 80);
    });
    EXPECT_TRUE(report.ok()) << report.failure;
  }
}

}  // namespace
}  // namespace tern::sim
