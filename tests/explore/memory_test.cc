// The explorer itself: what C++20 says of the usual small programs (litmus tests), it finds; and no more.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "base/futex.h"
#include "tests/explore/explorer.h"

namespace tern::explore {
namespace {

struct Words {
  std::atomic<uint32_t> x{0}, y{0};
  uint64_t data = 0;
};

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kSeqCst = std::memory_order_seq_cst;

using Results = std::set<std::pair<uint32_t, uint32_t>>;
using Body = std::function<uint32_t(Words&)>;

/// What two threads may return together.
Results results_of(const Body& a, const Body& b) {
  Results results;
  const Outcome outcome = explore({}, [&](Execution& execution) {
    auto words = std::make_shared<Words>();
    auto got = std::make_shared<std::pair<uint32_t, uint32_t>>();
    execution.share(words.get(), sizeof(Words));
    execution.thread([=] { got->first = a(*words); });
    execution.thread([=] { got->second = b(*words); });
    execution.finally([=, &results] { results.insert(*got); });
  });
  EXPECT_EQ(outcome.failure, "");
  EXPECT_TRUE(outcome.exhausted);
  return results;
}

TEST(Memory, StoreBuffering) {
  const auto program = [](std::memory_order store, std::memory_order load, std::memory_order fence) {
    const auto side = [=](std::atomic<uint32_t>& mine, std::atomic<uint32_t>& theirs) {
      mine.store(1, store);
      if (fence != kRelaxed) std::atomic_thread_fence(fence);
      return theirs.load(load);
    };
    return results_of([=](Words& w) { return side(w.x, w.y); }, [=](Words& w) { return side(w.y, w.x); });
  };
  const Results all{{0, 0}, {0, 1}, {1, 0}, {1, 1}}, ordered{{0, 1}, {1, 0}, {1, 1}};
  EXPECT_EQ(program(kRelaxed, kRelaxed, kRelaxed), all);
  EXPECT_EQ(program(kRelease, kAcquire, kRelaxed), all);
  EXPECT_EQ(program(kRelease, kAcquire, std::memory_order_acq_rel), all);
  EXPECT_EQ(program(kSeqCst, kSeqCst, kRelaxed), ordered);
  EXPECT_EQ(program(kRelaxed, kRelaxed, kSeqCst), ordered);
}

TEST(Memory, MessagePassing) {
  const auto program = [](std::memory_order store, std::memory_order load) {
    return results_of(
        [=](Words& w) {
          w.x.store(1, kRelaxed);
          w.y.store(1, store);
          return 0u;
        },
        [=](Words& w) {
          const uint32_t flag = w.y.load(load);
          return flag * 2 + w.x.load(kRelaxed);
        });
  };
  const Results all{{0, 0}, {0, 1}, {0, 2}, {0, 3}}, ordered{{0, 0}, {0, 1}, {0, 3}};
  EXPECT_EQ(program(kRelease, kAcquire), ordered);
  EXPECT_EQ(program(kRelaxed, kAcquire), all);
  EXPECT_EQ(program(kRelease, kRelaxed), all);
}

TEST(Memory, MessagePassingByFences) {
  const auto program = [](bool release, bool acquire) {
    return results_of(
        [=](Words& w) {
          w.x.store(1, kRelaxed);
          if (release) std::atomic_thread_fence(kRelease);
          w.y.store(1, kRelaxed);
          return 0u;
        },
        [=](Words& w) {
          const uint32_t flag = w.y.load(kRelaxed);
          if (acquire) std::atomic_thread_fence(kAcquire);
          return flag * 2 + w.x.load(kRelaxed);
        });
  };
  EXPECT_EQ(program(true, true).count({0, 2}), 0u);
  EXPECT_EQ(program(true, false).count({0, 2}), 1u);
  EXPECT_EQ(program(false, true).count({0, 2}), 1u);
}

TEST(Memory, OneLocationIsReadInOrder) {
  const Results results = results_of(
      [](Words& w) {
        w.x.store(1, kRelaxed);
        w.x.store(2, kRelaxed);
        return 0u;
      },
      [](Words& w) {
        const uint32_t first = w.x.load(kRelaxed);
        return first * 4 + w.x.load(kRelaxed);
      });
  EXPECT_EQ(results, (Results{{0, 0}, {0, 1}, {0, 2}, {0, 5}, {0, 6}, {0, 10}}));
}

TEST(Memory, OnlyOneExchangeComesFirst) {
  const Body take = [](Words& w) { return w.x.exchange(1, kRelaxed); };
  EXPECT_EQ(results_of(take, take), (Results{{0, 1}, {1, 0}}));
}

/// A flag that says that plain data are there.
Outcome hand_over(std::memory_order store, std::memory_order load) {
  return explore({}, [=](Execution& execution) {
    auto words = std::make_shared<Words>();
    execution.share(words.get(), sizeof(Words));
    execution.thread([=] {
      words->data = 42;
      words->x.store(1, store);
    });
    execution.thread([=] {
      wait_for([&] { return words->x.load(load) == 1; });
      require(words->data == 42, "the data are there");
    });
  });
}

TEST(Explorer, FindsAMissingRelease) {
  EXPECT_EQ(hand_over(kRelease, kAcquire).failure, "");
  EXPECT_EQ(hand_over(kRelaxed, kAcquire).failure, "thread 1: a read races with thread 0's write");
  EXPECT_EQ(hand_over(kRelease, kRelaxed).failure, "thread 1: a read races with thread 0's write");
}

/// Who sleeps says so and looks again; who has something stores it and looks whether somebody sleeps.
Outcome sleep_and_wake(bool looks_again, std::memory_order order) {
  return explore({}, [=](Execution& execution) {
    auto words = std::make_shared<Words>();
    auto bell = std::make_shared<bool>(false);
    execution.share(words.get(), sizeof(Words));
    execution.thread([=] {
      if (words->x.load(kAcquire) == 1) return;
      words->y.store(1, order);
      if (looks_again && words->x.load(order == kSeqCst ? kSeqCst : kAcquire) == 1) return;
      wait_for([&] { return *bell; });
    });
    execution.thread([=] {
      words->x.store(1, order);
      if (words->y.load(order == kSeqCst ? kSeqCst : kAcquire) == 0) return;
      *bell = true;
      note_change();
    });
  });
}

TEST(Explorer, FindsALostWakeUp) {
  EXPECT_EQ(sleep_and_wake(true, kSeqCst).failure, "");
  EXPECT_EQ(sleep_and_wake(false, kSeqCst).failure, "every thread waits for ever");
  EXPECT_EQ(sleep_and_wake(true, kRelease).failure, "every thread waits for ever") << "old values";
}

/// A futex: the kernel compares the word, and only a wake-up ends the sleep.
Outcome futex(bool wakes) {
  return explore({}, [=](Execution& execution) {
    auto words = std::make_shared<Words>();
    execution.share(words.get(), sizeof(Words));
    execution.thread([=] { futex_wait(words->x, 0); });
    execution.thread([=] {
      words->x.store(1, kRelease);
      if (wakes) futex_wake_one(words->x);
    });
  });
}

TEST(Explorer, FindsAMissingWakeUpOfAFutex) {
  EXPECT_EQ(futex(true).failure, "");
  EXPECT_EQ(futex(false).failure, "every thread waits for ever");
}

// The number of executions of a program that is small enough to count them by hand.
TEST(Explorer, TriesEveryInterleavingOnce) {
  const auto executions = [](uint32_t preemptions) {
    const Outcome outcome = explore({.preemptions = preemptions, .old_values = 0}, [](Execution& execution) {
      auto words = std::make_shared<Words>();
      execution.share(words.get(), sizeof(Words));
      for (int i = 0; i < 2; ++i) {
        execution.thread([=] {
          words->x.fetch_add(1, kRelaxed);
          words->y.fetch_add(1, kRelaxed);
        });
      }
      execution.finally([=] { EXPECT_EQ(words->x.load() + words->y.load(), 4u); });
    });
    EXPECT_TRUE(outcome.exhausted);
    return outcome.executions;
  };
  EXPECT_GE(executions(0), 2u);
  EXPECT_GE(executions(4), 6u) << "2 * 2 operations in order: 4! / (2! * 2!)";
}

}  // namespace
}  // namespace tern::explore
