// What a rank keeps about a window is read by short calls, or used by the thread that holds the rank's lock, never both
// (rma/window_gate.h).
#include "rma/window_gate.h"

#include <gtest/gtest.h>

#include <memory>

#include "progress/hand_over_mutex.h"
#include "tests/explore/pieces.h"

namespace tern::explore {
namespace {

using rma::WindowGate;

constexpr HandOverMutex::Patience kNone{.looks = 0, .reserved_looks = 0, .yields = 0};

/// A rank with one window. What it keeps is a plain number: a visitor that changes it while another thread is inside is
/// a race. `idle` short calls in a row open the gate.
struct Rank {
  explicit Rank(bool has_barrier) : gate(has_barrier, 2) {}
  static bool idle() { return true; }

  void put(uint32_t thread) {
    if (WindowGate::Place* place = gate.enter(thread)) {
      require(kept % 2 == 0, "nobody is about to change it");
      ++place->puts;
      gate.leave(*place);
      return;
    }
    lock.lock();
    gate.begin_visit(counters);
    require(kept % 2 == 0, "nobody is about to change it");
    gate.count_short();
    ++counters.rma_puts;
    gate.end_visit(idle);
    lock.unlock();
  }
  void other() {
    lock.lock();
    gate.begin_visit(counters);
    ++kept;
    require(!gate.is_open(), "closed while a call visits");
    ++kept;
    gate.end_visit(idle);
    lock.unlock();
  }
  /// Gives the rank's lock up in the middle.
  void waits() {
    lock.lock();
    gate.begin_visit(counters);
    ++kept;
    ++kept;
    lock.unlock();
    lock.lock();
    require(!gate.is_open(), "closed while a call waits");
    gate.end_visit(idle);
    lock.unlock();
  }
  uint64_t count() {
    lock.lock();
    gate.close(counters);
    const uint64_t puts = counters.rma_puts;
    lock.unlock();
    return puts;
  }

  HandOverMutex lock{kNone};
  WindowGate gate;
  Counters counters;
  uint64_t kept = 0;
};

std::shared_ptr<Rank> make_rank(Execution& execution, bool has_barrier) {
  auto rank = std::make_shared<Rank>(has_barrier);
  WindowGate::Places& places = rank->gate.open_at_first();
  execution.share(rank.get(), sizeof(Rank));
  execution.share(&places, sizeof places);
  return rank;
}

class WindowGates : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Barrier, WindowGates, ::testing::Bool());

TEST_P(WindowGates, TwoThreadsPutAndOneCallsSomethingElse) {
  const Bounds bounds{.preemptions = preemptions(1), .old_values = 1};
  must_hold("WindowGate, two short calls and another", bounds, [](Execution& execution) {
    auto rank = make_rank(execution, GetParam());
    for (uint32_t i = 0; i < 2; ++i) {
      execution.thread([=] { rank->put(i); });
    }
    execution.thread([=] { rank->other(); });
    execution.finally([=] { require(rank->count() == 2 && rank->kept == 2, "each did what it had to"); });
  });
}

TEST_P(WindowGates, OpensAgain) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 2};
  const Program program = [](Execution& execution) {
    auto rank = make_rank(execution, GetParam());
    execution.thread([=] {
      for (int i = 0; i < 6; ++i) rank->put(0);
    });
    execution.thread([=] { rank->other(); });
    execution.finally([=] { require(rank->count() == 6 && rank->kept == 2, "each did what it had to"); });
  };
  const Outcome outcome = must_hold("WindowGate, opens again", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "window_gate"), 2u);
}

TEST_P(WindowGates, ClosedWhileACallWaits) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 1};
  must_hold("WindowGate, a call that waits", bounds, [](Execution& execution) {
    auto rank = make_rank(execution, GetParam());
    execution.thread([=] {
      for (int i = 0; i < 3; ++i) rank->put(0);
    });
    execution.thread([=] { rank->waits(); });
    execution.finally([=] { require(rank->count() == 3, "each did what it had to"); });
  });
}

}  // namespace
}  // namespace tern::explore
