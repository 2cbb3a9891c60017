// OwnLockShare: how the target's share of its own lock is bounded while others come again, and that it is not while
// they do not.
#include "rma/own_lock_share.h"

#include <gtest/gtest.h>

namespace tern::rma {
namespace {

TEST(OwnLockShare, NobodyElseMeansNoWait) {
  OwnLockShare turns;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(turns.waits());
    turns.took();
  }
}

TEST(OwnLockShare, WaitsForWhoLeftUntilItComes) {
  OwnLockShare turns;
  OwnLockShare::Origin other;
  turns.gave_back(other);
  for (uint32_t i = 0; i < OwnLockShare::kInARow; ++i) {
    EXPECT_FALSE(turns.waits());
    turns.took();
  }
  EXPECT_TRUE(turns.waits());
  turns.asked(other);
  EXPECT_FALSE(turns.waits());
  for (int i = 0; i < 10; ++i) turns.took();
  EXPECT_FALSE(turns.waits());  // it stands in the queue: that decides
}

TEST(OwnLockShare, EachOfSeveralIsWaitedFor) {
  OwnLockShare turns;
  OwnLockShare::Origin first, second;
  turns.gave_back(first);
  turns.took();
  turns.gave_back(second);
  turns.took();
  EXPECT_TRUE(turns.waits());
  turns.asked(first);
  EXPECT_FALSE(turns.waits());
  turns.took();
  EXPECT_TRUE(turns.waits());
  turns.forget(second);
  EXPECT_FALSE(turns.waits());
}

// Who comes late each time costs a wait in fewer and fewer of its turns; who comes in time once, none.
TEST(OwnLockShare, WhoIsLateIsExpectedLess) {
  OwnLockShare turns;
  OwnLockShare::Origin other;
  int waits = 0;
  for (int i = 0; i < 1000; ++i) {
    turns.gave_back(other);
    for (int own = 0; own < 10; ++own) {
      if (turns.waits()) {
        ++waits;
        turns.give_up();
      }
      EXPECT_FALSE(turns.waits());
      turns.took();
    }
    turns.asked(other);
  }
  EXPECT_GT(waits, 5);
  EXPECT_LT(waits, 30);
  // In time again.
  int missed = 0;
  for (int i = 0; i < 1000; ++i) {
    turns.gave_back(other);
    for (uint32_t own = 0; own < OwnLockShare::kInARow; ++own) turns.took();
    if (!turns.waits()) ++missed;
    turns.asked(other);
    EXPECT_FALSE(turns.waits());
  }
  EXPECT_LE(missed, int(OwnLockShare::kMaxSkips));
}

}  // namespace
}  // namespace tern::rma
