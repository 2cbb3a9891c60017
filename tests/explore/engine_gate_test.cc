// A message engine has one user at a time: a short call, or the thread that holds the rank's lock
// (progress/engine_gate.h).
#include "progress/engine_gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "progress/work_left.h"
#include "tests/explore/pieces.h"

namespace tern::explore {
namespace {

constexpr HandOverMutex::Patience kNone{.looks = 0, .reserved_looks = 0, .yields = 0};

/// A rank with message engines. What an engine has is a plain number: two that use it at a time are a race.
struct Rank {
  explicit Rank(size_t engines) {
    for (size_t i = 0; i < engines; ++i) all.push_back(std::make_unique<OneEngine>());
  }
  struct OneEngine {
    EngineGate gate{kNone, 2};
    uint64_t messages = 0;
  };
  static bool idle() { return true; }

  /// A short call that finds what it wants: with the engine alone, or as all others.
  void send(size_t i) {
    OneEngine& engine = *all[i];
    const std::thread::id me = std::this_thread::get_id();
    if (engine.gate.enter(me)) {
      ++engine.messages;
      engine.gate.leave();
      return;
    }
    lock.lock();
    engine.gate.begin_visit(me, true);
    ++engine.messages;
    changes.fetch_add(1, std::memory_order_relaxed);  // calls those that wait
    engine.gate.end_visit(idle);
    lock.unlock();
  }
  /// The same, of which the engine alone could not do all.
  void send_slowly(size_t i) {
    OneEngine& engine = *all[i];
    lock.lock();
    engine.gate.begin_visit(std::this_thread::get_id(), true);
    ++engine.messages;
    engine.gate.end_visit(idle);
    lock.unlock();
  }
  /// One of another kind.
  void other(size_t i) {
    OneEngine& engine = *all[i];
    lock.lock();
    engine.gate.begin_visit(std::this_thread::get_id(), false);
    ++engine.messages;
    require(!engine.gate.is_open(), "closed while a call visits");
    engine.gate.end_visit(idle);
    lock.unlock();
  }
  /// A receive: it waits until `wanted` messages have come. It does not hold the rank's lock while it waits.
  void receive(size_t i, uint64_t wanted) {
    OneEngine& engine = *all[i];
    lock.lock();
    engine.gate.begin_visit(std::this_thread::get_id(), true);
    while (engine.messages < wanted) {
      const uint32_t seen = changes.load(std::memory_order_relaxed);
      lock.unlock();
      wait_for([&] { return changes.load(std::memory_order_relaxed) != seen; });
      lock.lock();
      require(!engine.gate.is_open(), "closed while a thread waits");
    }
    engine.gate.end_visit(idle);
    lock.unlock();
  }
  /// A round of the rank: looks into the engine, which may be open, and closes it or not.
  void look(size_t i, bool close) {
    OneEngine& engine = *all[i];
    const std::thread::id me = std::this_thread::get_id();
    lock.lock();
    const bool entered = engine.gate.enter(me);
    ++engine.messages;
    if (entered && close) engine.gate.leave_closed();
    else if (entered) engine.gate.leave();
    if (close) require(!engine.gate.is_open(), "closed after that");
    lock.unlock();
  }
  /// All engines, for a call that concerns them all.
  uint64_t count_all() {
    lock.lock();
    uint64_t sum = 0;
    for (auto& engine : all) {
      engine->gate.close(std::this_thread::get_id());
      sum += engine->messages;
    }
    lock.unlock();
    return sum;
  }

  HandOverMutex lock{kNone};
  std::atomic<uint32_t> changes{0};
  std::vector<std::unique_ptr<OneEngine>> all;
};

std::shared_ptr<Rank> make_rank(Execution& execution, size_t engines) {
  auto rank = std::make_shared<Rank>(engines);
  execution.share(rank.get(), sizeof(Rank));
  for (auto& engine : rank->all) execution.share(engine.get(), sizeof(Rank::OneEngine));
  return rank;
}

TEST(EngineGate, ShortCallsAndOneOther) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 2};
  must_hold("EngineGate, short calls and another", bounds, [](Execution& execution) {
    auto rank = make_rank(execution, 1);
    rank->all[0]->gate.open_at_first();
    execution.thread([=] {
      for (int i = 0; i < 4; ++i) rank->send(0);
    });
    execution.thread([=] { rank->other(0); });
    execution.finally([=] { require(rank->all[0]->messages == 5, "each was inside"); });
  });
}

TEST(EngineGate, OpensAgain) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 2};
  const Program program = [](Execution& execution) {
    auto rank = make_rank(execution, 1);
    rank->all[0]->gate.open_at_first();
    execution.thread([=] {
      for (int i = 0; i < 3; ++i) rank->send(0);
    });
    execution.thread([=] { rank->send_slowly(0); });
    execution.finally([=] {
      require(rank->all[0]->messages == 4, "each was inside");
      require(rank->all[0]->gate.is_open(), "nobody is there");
    });
  };
  const Outcome outcome = must_hold("EngineGate, opens again", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "engine_gate"), 2u) << "release and acquire of `open_`";
}

TEST(EngineGate, TwoThreadsWithTheirEnginesAndOneForBoth) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 1};
  const Program program = [](Execution& execution) {
    auto rank = make_rank(execution, 2);
    for (auto& engine : rank->all) engine->gate.open_at_first();
    for (size_t i = 0; i < 2; ++i) {
      execution.thread([=] { rank->send(i); });
    }
    execution.thread([=] {
      rank->other(0);
      rank->count_all();
    });
    execution.finally([=] { require(rank->count_all() == 3, "each was inside"); });
  };
  must_hold("EngineGate, two engines", bounds, program);
}

// A round of a thread that waits for something else.
TEST(EngineGate, ARoundLooksIntoAnOpenEngine) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 1};
  const Program program = [](Execution& execution) {
    auto rank = make_rank(execution, 1);
    rank->all[0]->gate.open_at_first();
    execution.thread([=] {
      for (int i = 0; i < 3; ++i) rank->send(0);
    });
    execution.thread([=] {
      rank->look(0, false);
      rank->look(0, true);
    });
    execution.finally([=] { require(rank->all[0]->messages == 5, "each was inside"); });
  };
  must_hold("EngineGate, a round", bounds, program);
}

TEST(EngineGate, WhoWaitsIsCalled) {
  const Bounds bounds{.preemptions = preemptions(2), .old_values = 1};
  const Program program = [](Execution& execution) {
    auto rank = make_rank(execution, 2);
    for (auto& engine : rank->all) engine->gate.open_at_first();
    execution.thread([=] {
      rank->send(1);
      rank->send(0);
    });
    execution.thread([=] { rank->receive(0, 1); });
    execution.finally([=] { require(rank->count_all() == 2, "each was inside"); });
  };
  must_hold("EngineGate, a thread that waits", bounds, program);
}

// Short calls leave something to do; the rank asks, and polls if there is something. What is left last is not
// forgotten.
TEST(WorkLeft, TheRankSeesItOrIsTold) {
  struct Shared {
    WorkLeft left;
    HandOverMutex lock{kNone};
    std::atomic<Need> known{Need::nothing};  ///< what the rank has acted on last
  };
  const Bounds bounds{.preemptions = preemptions(3), .old_values = 2};
  must_hold("WorkLeft, a call and a rank that asks", bounds, [](Execution& execution) {
    auto shared = std::make_shared<Shared>();
    execution.share(shared.get(), sizeof(Shared));
    execution.thread([=] {
      for (const Need need : {Need::now, Need::nothing, Need::now}) {
        if (!shared->left.leave(need)) continue;
        shared->lock.lock();
        shared->left.note_told();
        shared->known = Need::now;
        shared->lock.unlock();
      }
    });
    execution.thread([=] {
      shared->lock.lock();
      shared->known = shared->left.ask();
      shared->lock.unlock();
    });
    execution.finally([=] { require(shared->known == Need::now, "somebody polls for what is left"); });
  });
}

}  // namespace
}  // namespace tern::explore
