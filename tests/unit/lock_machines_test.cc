// The word locks of windows: every order of the word operations of three ranks, with all mixtures of readers and
// writers, is taken (states are remembered, so that none is looked at twice), and so is every moment at which one of
// them may die; and random schedules of more ranks. Checked in every state: a writer is alone; who must keep an order
// keeps it. Of all states: the end can be reached, and nobody is left waiting.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "rma/locks/mcs.h"
#include "rma/locks/test_and_set.h"

namespace tern::rma {
namespace {

constexpr uint32_t kTarget = 0;

struct NativeMcs : McsLock {
  explicit NativeMcs(uint32_t me) : McsLock(me, kTarget, true) {}
};
struct TakingMcs : McsLock {
  explicit TakingMcs(uint32_t me) : McsLock(me, kTarget, true, true) {}
};
struct EmulatedMcs : McsLock {
  explicit EmulatedMcs(uint32_t me) : McsLock(me, kTarget, false) {}
};
struct Tas : TestAndSet {
  explicit Tas(uint32_t me) : TestAndSet(me, kTarget) {}
};
template <typename Machine>
inline constexpr bool kQueues = std::is_base_of_v<McsLock, Machine>;

/// All ranks, and the words.
template <typename Machine>
struct World {
  struct Rank {
    explicit Rank(uint32_t me) : machine(me) {}
    Machine machine;
    size_t to_come = 0;                ///< rounds
    LockMode mode = LockMode::shared;  ///< of the round that has begun
    bool dead = false;
  };
  const std::vector<std::vector<LockMode>>* rounds;  ///< of each rank, the last one first; outlives the world
  size_t words_each;
  std::vector<uint64_t> words;
  std::vector<Rank> ranks;
  std::vector<uint32_t> queue;  ///< MCS: who has swapped and does not hold the lock yet, in order
  bool may_die = false, somebody_died = false;

  World(const std::vector<std::vector<LockMode>>& of_ranks, bool deaths)
      : rounds(&of_ranks),
        words_each(LockWord::count(uint32_t(of_ranks.size()))),
        words(of_ranks.size() * words_each),
        may_die(deaths) {
    for (uint32_t rank = 0; rank < of_ranks.size(); ++rank) ranks.emplace_back(rank).to_come = of_ranks[rank].size();
  }
  World(const World&) = default;

  uint64_t value_of(uint32_t rank, uint32_t index) const { return words[rank * words_each + index]; }

  std::string key() const {
    std::vector<uint64_t> all;
    all.reserve(words.size() + 8 * ranks.size());
    all = words;
    for (const Rank& rank : ranks) {
      all.push_back(rank.to_come << 1 | rank.dead);
      rank.machine.write_state(all);
    }
    for (uint32_t rank : queue) all.push_back(rank + 100);
    all.push_back(may_die);
    return std::string(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(uint64_t));
  }

  // What can happen next, as numbers: 4 * rank + what.
  enum What : uint32_t { kStep, kFail, kDie, kWhats };
  bool can(uint32_t number) const {
    const Rank& rank = ranks[number / kWhats];
    if (rank.dead) return false;
    switch (What(number % kWhats)) {
      case kDie: return may_die;
      case kFail: {
        // As WordLocks does it: the one it waits for has died, or nobody knows for whom it waits.
        if (!somebody_died) return false;
        if (rank.machine.looks_behind()) return true;
        return rank.machine.waiting() && rank.machine.wants() != LockMachine::Wants::operation &&
               rank.machine.is_hopeless_without(dead());
      }
      default: break;
    }
    switch (rank.machine.wants()) {
      case LockMachine::Wants::watch: return value_of(number / kWhats, rank.machine.watch_word()) != 0;
      case LockMachine::Wants::nothing: return rank.machine.held() || rank.to_come != 0;
      default: return true;
    }
  }

  uint32_t dead() const {
    return uint32_t(std::find_if(ranks.begin(), ranks.end(), [](const Rank& rank) { return rank.dead; }) -
                    ranks.begin());
  }
  uint64_t execute(const WordOperation& o) {
    uint64_t& word = words[o.rank * words_each + o.word];
    const uint64_t old = word;
    switch (o.kind) {
      case WordOperation::Kind::read: break;
      case WordOperation::Kind::write:
      case WordOperation::Kind::swap: word = o.operand; break;
      case WordOperation::Kind::fetch_add: word += o.operand; break;
      case WordOperation::Kind::compare_swap:
        if (old == o.compare) word = o.operand;
        break;
    }
    return old;
  }

  void happen(uint32_t number) {
    const uint32_t me = number / kWhats;
    Rank& rank = ranks[me];
    Machine& machine = rank.machine;
    if (number % kWhats == kDie) {
      rank.dead = somebody_died = true;
      may_die = false;
      std::erase(queue, me);
      return;
    }
    const bool held = machine.held();
    const uint64_t before = value_of(kTarget, LockWord::kLock);
    if (number % kWhats == kFail) {
      machine.looks_behind() ? machine.abandon() : machine.fail();
    } else if (machine.wants() == LockMachine::Wants::operation) {
      const WordOperation operation = machine.operation();
      if (ranks[operation.rank].dead) {
        machine.lost();
      } else {
        const uint64_t result = execute(operation);
        machine.completed(result);
        if (kQueues<Machine> && operation.word == LockWord::kLock && value_of(kTarget, LockWord::kLock) == me + 1 &&
            result != me + 1)
          queue.push_back(me);
      }
    } else if (machine.wants() == LockMachine::Wants::watch) {
      machine.watched(value_of(me, machine.watch_word()));
    } else if (machine.wants() == LockMachine::Wants::pause) {
      machine.paused();
    } else if (held) {
      machine.release();
    } else {
      rank.mode = (*rounds)[me][--rank.to_come];
      machine.acquire(rank.mode);
    }
    if (!held && machine.held()) entered(me, before);
    if (machine.failed()) {
      std::erase(queue, me);
      rank.to_come = 0;
    }
  }

  void entered(uint32_t me, uint64_t before) {
    check_holders();
    if constexpr (kQueues<Machine>) {
      const bool joined =
          ranks[me].mode == LockMode::joining && std::find(queue.begin(), queue.end(), me) == queue.end();
      const bool taken_back = ranks[me].machine.has_taken_back();
      EXPECT_TRUE(somebody_died || joined || taken_back || queue.front() == me) << "out of turn";
      std::erase(queue, me);
    } else if (ranks[me].mode == LockMode::shared) {
      EXPECT_EQ(TestAndSet::announced(before), 0u) << "a reader has passed a writer that had announced itself";
    }
  }
  void check_holders() const {
    uint32_t holders = 0, writers = 0;
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      const bool holds = ranks[rank].machine.held();
      holders += holds;
      writers += holds && ranks[rank].machine.exclusive();
    }
    EXPECT_TRUE(writers == 0 || holders == 1) << holders << " hold the lock, of them " << writers << " writers";
  }
  bool is_over() const {
    return std::all_of(ranks.begin(), ranks.end(), [](const Rank& rank) {
      return rank.dead || (rank.to_come == 0 && (rank.machine.idle() || rank.machine.failed()));
    });
  }
  bool is_clean() const {
    const uint64_t lock = value_of(kTarget, LockWord::kLock);
    return (lock == 0 || (kQueues<Machine> && lock == McsLock::kReadersOnly)) &&
           value_of(kTarget, LockWord::kReaders) == 0;
  }
};

/// Takes all ways. Returns how many states there are.
template <typename Machine>
size_t explore(const std::vector<std::vector<LockMode>>& rounds, bool deaths) {
  using W = World<Machine>;
  std::unordered_map<std::string, uint32_t> number_of;
  std::vector<std::vector<uint32_t>> from;  // states from which a state is reached
  std::deque<std::pair<uint32_t, W>> open;
  std::vector<uint32_t> over;
  auto number = [&](const W& world) {
    auto [at, is_new] = number_of.emplace(world.key(), uint32_t(from.size()));
    if (is_new) {
      from.emplace_back();
      open.emplace_back(at->second, world);
    }
    return at->second;
  };
  number(W(rounds, deaths));
  const uint32_t choices = uint32_t(rounds.size()) * W::kWhats;
  while (!open.empty()) {
    auto [state, world] = std::move(open.front());
    open.pop_front();
    bool moved = false;
    for (uint32_t choice = 0; choice < choices; ++choice) {
      if (!world.can(choice)) continue;
      moved = moved || choice % W::kWhats != W::kDie;
      W next(world);
      next.happen(choice);
      from[number(next)].push_back(state);
    }
    if (world.is_over()) {
      over.push_back(state);
      EXPECT_TRUE(world.somebody_died || world.is_clean());
    } else {
      EXPECT_TRUE(moved) << "nobody can go on";
    }
    if (testing::Test::HasFailure()) return 0;
  }
  // From everywhere the end can be reached.
  std::vector<bool> ends(from.size());
  for (uint32_t state : over) ends[state] = true;
  for (size_t i = 0; i < over.size(); ++i) {
    for (uint32_t before : from[over[i]]) {
      if (!ends[before]) {
        ends[before] = true;
        over.push_back(before);
      }
    }
  }
  EXPECT_EQ(std::count(ends.begin(), ends.end(), false), 0) << "states from which the end is not reached";
  return from.size();
}

template <typename Machine>
class LockMachines : public testing::Test {};
using Machines = testing::Types<Tas, NativeMcs, EmulatedMcs, TakingMcs>;
TYPED_TEST_SUITE(LockMachines, Machines);

TYPED_TEST(LockMachines, AllInterleavingsOfThreeRanks) {
  size_t states = 0;
  for (uint32_t modes = 0; modes < 243; ++modes) {
    std::vector<std::vector<LockMode>> rounds(3);
    for (uint32_t i = 0, left = modes; i < 5; ++i, left /= 3) rounds[i / 2].push_back(LockMode(left % 3));
    if (rounds[1] < rounds[0]) continue;  // the same with the names of two ranks exchanged
    states += explore<TypeParam>(rounds, false);
    ASSERT_FALSE(testing::Test::HasFailure()) << "modes " << modes;
  }
  printf("%zu states\n", states);
}

TYPED_TEST(LockMachines, ARankDiesAtAnyMoment) {
  size_t states = 0;
  for (uint32_t modes = 0; modes < 27; ++modes) {
    std::vector<std::vector<LockMode>> rounds;
    for (uint32_t i = 0, left = modes; i < 3; ++i, left /= 3) rounds.push_back({LockMode(left % 3)});
    rounds[2].push_back(LockMode::exclusive);
    states += explore<TypeParam>(rounds, true);
    ASSERT_FALSE(testing::Test::HasFailure()) << "modes " << modes;
  }
  printf("%zu states\n", states);
}

TYPED_TEST(LockMachines, RandomSchedulesOfMoreRanks) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    std::vector<std::vector<LockMode>> rounds(2 + rng.below(8));
    for (auto& each : rounds) {
      for (uint64_t count = 1 + rng.below(6); count != 0; --count) each.push_back(LockMode(rng.below(3)));
    }
    World<TypeParam> world(rounds, false);
    const uint64_t die_at = rng.chance(1, 3) ? rng.below(300) : ~uint64_t{0};
    size_t steps = 0;
    for (; !world.is_over(); ++steps) {
      world.may_die = steps == die_at;
      std::vector<uint32_t> choices;
      for (uint32_t choice = 0; choice < rounds.size() * world.kWhats; ++choice) {
        if (world.can(choice) && (steps != die_at || choice % world.kWhats == world.kDie)) choices.push_back(choice);
      }
      ASSERT_FALSE(choices.empty()) << "nobody can go on";
      world.happen(choices[rng.below(choices.size())]);
      ASSERT_FALSE(testing::Test::HasFailure());
      ASSERT_LT(steps, 100'000u);
    }
    ASSERT_TRUE(world.somebody_died || world.is_clean());
  }
}

// While one reads and a writer waits, who joins gets the lock.
TYPED_TEST(LockMachines, JoiningPassesAWriterThatWaits) {
  const std::vector<std::vector<LockMode>> rounds{{LockMode::shared}, {LockMode::exclusive}, {LockMode::joining}};
  World<TypeParam> world(rounds, false);
  const auto turns_of = [&](uint32_t rank, int most) {
    for (int i = 0; i < most && !world.ranks[rank].machine.held() && world.can(rank * world.kWhats); ++i)
      world.happen(rank * world.kWhats + world.kStep);
  };
  turns_of(0, 20);
  while (world.ranks[0].machine.wants() != LockMachine::Wants::nothing) world.happen(0);  // it passes its turn on
  turns_of(1, 20);
  turns_of(2, 20);
  EXPECT_TRUE(world.ranks[0].machine.held());
  EXPECT_FALSE(world.ranks[1].machine.held());
  EXPECT_TRUE(world.ranks[2].machine.held());
}

// A free lock costs one atomic operation, and one to give it back; of MCS what it writes into its own memory besides.
TYPED_TEST(LockMachines, AFreeLockCostsTwoAtomics) {
  for (const LockMode mode : {LockMode::exclusive, LockMode::shared}) {
    const std::vector<std::vector<LockMode>> rounds{{}, {mode}};
    World<TypeParam> world(rounds, false);
    size_t away = 0;
    while (!world.is_over()) {
      const auto& machine = world.ranks[1].machine;
      away += machine.wants() == LockMachine::Wants::operation && machine.operation().rank == kTarget;
      world.happen(world.kWhats + world.kStep);
    }
    const size_t most = kQueues<TypeParam> && mode == LockMode::shared ? 4 : 2;
    EXPECT_EQ(away, most);
  }
}

}  // namespace
}  // namespace tern::rma
