// The mutex of a rank's threads of which one may come and go with plain stores (progress/biased_mutex.h).
#include "progress/biased_mutex.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/explore/pieces.h"

namespace tern::explore {
namespace {

/// One thread comes so often for each number; the second visit in a row begins a term.
Program come_and_go(std::vector<int> visits) {
  return [=](Execution& execution) {
    struct State {
      State() { mutex.allow_terms(true); }
      BiasedMutex mutex{{.looks = 0, .reserved_looks = 0, .yields = 0}, 1};
      uint64_t inside = 0;  ///< plain: two inside are a race
    };
    auto state = std::make_shared<State>();
    execution.share(state.get(), sizeof(State));
    uint64_t all = 0;
    for (const int count : visits) {
      all += uint64_t(count);
      execution.thread([=] {
        for (int visit = 0; visit < count; ++visit) {
          state->mutex.lock(std::this_thread::get_id());
          ++state->inside;
          state->mutex.unlock();
        }
      });
    }
    execution.finally([=] {
      require(state->inside == all, "each was inside");
      require(!state->mutex.wanted(), "nobody waits");
    });
  };
}

TEST(BiasedMutex, ATermIsEndedByWhoComes) {
  const Bounds bounds{.preemptions = preemptions(3), .old_values = 2};
  const Program program = come_and_go({4, 1});
  const Outcome outcome = must_hold("BiasedMutex, one thread comes", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "biased_mutex"), 2u) << "the term's end of being inside";
}

TEST(BiasedMutex, TermsOfBothThreads) {
  const Bounds bounds{.preemptions = preemptions(3), .old_values = 1};
  must_hold("BiasedMutex, terms of two threads", bounds, come_and_go({3, 3}));
}

TEST(BiasedMutex, ThreeThreads) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 1};
  must_hold("BiasedMutex, 3 threads", bounds, come_and_go({3, 2, 1}));
}

TEST(BiasedMutex, NeedsItsBarrier) {
  Bounds bounds{.preemptions = 3, .old_values = 2};
  bounds.no_barrier = true;
  EXPECT_NE(explore(bounds, come_and_go({4, 1})).failure, "");
}

}  // namespace
}  // namespace tern::explore
