// The mutex of a rank's threads (progress/hand_over_mutex.h): never two inside, nobody sleeps for ever, and nothing of
// those who waited stays in its word.
#include "progress/hand_over_mutex.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/explore/pieces.h"

namespace tern::explore {
namespace {

struct State {
  explicit State(HandOverMutex::Patience patience) : mutex(patience) {}
  HandOverMutex mutex;
  uint64_t inside = 0;  ///< plain: two inside are a race
};

/// Each thread comes so often. `looks`: so early that a thread reserves and sleeps within the bounds.
Program come_and_go(int threads, int visits, HandOverMutex::Patience patience) {
  return [=](Execution& execution) {
    auto state = std::make_shared<State>(patience);
    execution.share(state.get(), sizeof(State));
    for (int i = 0; i < threads; ++i) {
      execution.thread([=] {
        for (int visit = 0; visit < visits; ++visit) {
          state->mutex.lock();
          ++state->inside;
          state->mutex.unlock();
        }
      });
    }
    execution.finally([=] {
      require(state->inside == uint64_t(threads * visits), "each was inside");
      require(!state->mutex.wanted() && state->mutex.reservations() == 0, "nobody is left in the word");
      require(state->mutex.try_lock(), "it is free");
    });
  };
}

TEST(HandOverMutex, TwoThreads) {
  const Bounds bounds{.preemptions = preemptions(3), .old_values = 2};
  const Program program = come_and_go(2, 2, {.looks = 0, .reserved_looks = 0, .yields = 0});
  const Outcome outcome = must_hold("HandOverMutex, 2 threads", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "hand_over_mutex"), 2u) << "its taking and its giving up";
}

TEST(HandOverMutex, TwoThreadsThatLook) {
  const Bounds bounds{.preemptions = preemptions(3), .old_values = 1};
  must_hold("HandOverMutex, 2 threads that look and yield", bounds,
            come_and_go(2, 1, {.looks = 1, .reserved_looks = 1, .yields = 1}));
}

TEST(HandOverMutex, ThreeThreads) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 1};
  must_hold("HandOverMutex, 3 threads", bounds, come_and_go(3, 1, {.looks = 0, .reserved_looks = 0, .yields = 0}));
}

/// As a thread that waits for a message: gives the mutex up, and wants it again.
TEST(HandOverMutex, WhoGivesItUpForOthersGetsItBack) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 1};
  const Program program = [](Execution& execution) {
    auto state = std::make_shared<State>(HandOverMutex::Patience{.looks = 1, .reserved_looks = 1, .yields = 0});
    execution.share(state.get(), sizeof(State));
    execution.thread([=] {
      state->mutex.lock();
      ++state->inside;
      state->mutex.unlock();
      state->mutex.lock_after_others();
      ++state->inside;
      state->mutex.unlock();
    });
    execution.thread([=] {
      state->mutex.lock();
      ++state->inside;
      state->mutex.unlock();
    });
    execution.finally([=] { require(state->inside == 3, "each was inside"); });
  };
  must_hold("HandOverMutex, given up and taken again", bounds, program);
}

}  // namespace
}  // namespace tern::explore
