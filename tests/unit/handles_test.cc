// Handles: every number that is not a living handle must be recognised, whatever it was before.
#include "capi/handles.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/object.h"

namespace tern::capi {
namespace {

struct Thing : Object {};
using Table = HandleTable<Thing, 0x100, 8>;

TEST(Handles, NewHandlesArePositiveIntsOutsideTheReservedRange) {
  Table table;
  std::vector<Thing> things(5000);
  std::unordered_set<uintptr_t> seen;
  for (Thing& thing : things) {
    uintptr_t handle = table.give(&thing);
    EXPECT_GT(handle, 4095u);
    EXPECT_LE(handle, 0x7fffffffu);
    EXPECT_TRUE(seen.insert(handle).second);
    EXPECT_EQ(table.find(handle), &thing);
    EXPECT_EQ(static_cast<uintptr_t>(thing.handle), handle);
  }
  EXPECT_EQ(table.live(), things.size());
}

TEST(Handles, TablesThatArePartsHaveHandlesOfTheirOwn) {
  using Part = HandleTable<Thing, 0x100, 8, true>;
  Table table;
  ASSERT_TRUE(table.leave_room_for_parts());
  Part first(1), last(Part::kMostParts);
  std::vector<Thing> things(300);
  std::unordered_set<uintptr_t> seen;
  for (size_t i = 0; i < things.size(); i += 3) {
    const uintptr_t mine = table.give(&things[i]), one = first.give(&things[i + 1]), other = last.give(&things[i + 2]);
    EXPECT_TRUE(seen.insert(mine).second && seen.insert(one).second && seen.insert(other).second);
    EXPECT_EQ(Part::part_of(mine), 0u);
    EXPECT_EQ(Part::part_of(one), 1u);
    EXPECT_EQ(Part::part_of(other), Part::kMostParts);
    EXPECT_LE(other, 0x7fffffffu);
    EXPECT_EQ(first.find_user(one), &things[i + 1]);
    EXPECT_EQ(table.find_user(one), nullptr);
    EXPECT_EQ(last.find_user(one), nullptr);
    EXPECT_EQ(first.find_user(mine), nullptr);
  }
  const auto one = static_cast<uintptr_t>(things[1].handle);
  EXPECT_FALSE(table.try_retire(one));
  EXPECT_TRUE(first.try_retire(one));
  EXPECT_EQ(first.find_user(one), nullptr);
  EXPECT_EQ(Part::part_of(0x180), 0u);
  EXPECT_EQ(Part::part_of(~uintptr_t{0}), 0u);
}

TEST(Handles, PredefinedOnesAreFoundUnderTheirOwnNumbers) {
  Table table;
  Thing world, self;
  EXPECT_EQ(table.find(0x101), nullptr);
  table.set_predefined(0x101, &world);
  table.set_predefined(0x102, &self);
  EXPECT_EQ(table.find(0x101), &world);
  EXPECT_EQ(table.find(0x102), &self);
  EXPECT_EQ(world.handle, 0x101);
  // The null handle, and the numbers around.
  for (uintptr_t number : {0u, 1u, 0xffu, 0x100u, 0x103u, 0x107u, 0x108u, 0xfffu})
    EXPECT_EQ(table.find(number), nullptr);
  EXPECT_EQ(table.give(&world), 0x101u);
  table.retire(0x101);
  EXPECT_EQ(table.find(0x101), &world);
  table.set_predefined(0x101, nullptr);
  EXPECT_EQ(table.find(0x101), nullptr);
}

// A thread that has not taken the rank's lock; the sanitizers look for races.
TEST(Handles, AreFoundWhileOthersAreMadeAndFreed) {
  Table table;
  std::vector<Thing> mine(40), others(3000);
  for (Thing& thing : mine) table.give(&thing);
  std::atomic<bool> over{false};
  std::thread maker([&] {
    for (int turn = 0; turn < 20; ++turn) {
      std::vector<uintptr_t> handles;
      for (Thing& thing : others) handles.push_back(table.give(&thing));
      for (size_t i = 0; i < handles.size(); ++i) {
        table.retire(handles[i]);
        others[i].handle = 0;
      }
    }
    over = true;
  });
  bool last = false;
  do {
    last = over;
    for (Thing& thing : mine) {
      const auto handle = static_cast<uintptr_t>(thing.handle);
      ASSERT_EQ(table.find_unlocked(handle), &thing);
    }
  } while (!last);
  maker.join();
}

TEST(Handles, AFreedHandleIsRecognisedWhileItsSlotIsReused) {
  Table table;
  Thing first;
  uintptr_t handle = table.give(&first);
  table.retire(handle);
  EXPECT_EQ(table.find(handle), nullptr);
  EXPECT_TRUE(table.was_freed(handle));
  // The slot comes back 126 times under other numbers.
  for (int i = 0; i < 126; ++i) {
    Thing next;
    uintptr_t other = table.give(&next);
    EXPECT_NE(other, handle);
    EXPECT_EQ(table.find(handle), nullptr);
    table.retire(other);
  }
}

TEST(Handles, TheSameObjectGivenTwiceHasOneHandleThatDiesWithTheSecondRetirement) {
  Table table;
  Thing thing;
  uintptr_t handle = table.give(&thing);
  EXPECT_EQ(table.give(&thing), handle);
  table.retire(handle);
  EXPECT_EQ(table.find(handle), &thing);
  table.retire(handle);
  EXPECT_EQ(table.find(handle), nullptr);
  // An object that outlives its handle gets a new one, whatever its old number says.
  uintptr_t again = table.give(&thing);
  EXPECT_NE(again, handle);
  EXPECT_EQ(table.find(again), &thing);
}

TEST(Handles, GarbageIsNeverFound) {
  Table table;
  std::vector<Thing> things(100);
  std::unordered_set<uintptr_t> valid;
  for (Thing& thing : things) valid.insert(table.give(&thing));
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    uintptr_t number = random() >> (random() % 64);
    if (!valid.count(number)) {
      EXPECT_EQ(table.find(number), nullptr) << number;
    }
  }
  // Right in the low bits, wrong above: a handle that was cut from a pointer.
  for (uintptr_t handle : valid) {
    EXPECT_EQ(table.find(handle | uintptr_t{1} << 32), nullptr);
    EXPECT_EQ(table.find(handle | uintptr_t{1} << 63), nullptr);
  }
}

TEST(Handles, RandomGivingAndRetiringAgreesWithAMap) {
  Table table;
  std::mt19937 random(11);
  std::vector<Thing> things(300);
  std::unordered_map<uintptr_t, Thing*> model;
  std::vector<uintptr_t> dead;
  for (int step = 0; step < 20000; ++step) {
    Thing& thing = things[random() % things.size()];
    bool living = thing.handle != 0 && model.count(static_cast<uintptr_t>(thing.handle));
    if (living && model[static_cast<uintptr_t>(thing.handle)] == &thing) {
      auto handle = static_cast<uintptr_t>(thing.handle);
      table.retire(handle);
      model.erase(handle);
      dead.push_back(handle);
    } else {
      uintptr_t handle = table.give(&thing);
      ASSERT_FALSE(model.count(handle));
      model[handle] = &thing;
    }
    uintptr_t probe = dead.empty() ? 0 : dead[random() % dead.size()];
    auto expected = model.find(probe);
    ASSERT_EQ(table.find(probe), expected == model.end() ? nullptr : expected->second);
  }
  for (auto& [handle, thing] : model) EXPECT_EQ(table.find(handle), thing);
  EXPECT_EQ(table.live(), model.size());
}

}  // namespace
}  // namespace tern::capi
