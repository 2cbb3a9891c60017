// The parts of RDMA tuple queues that need no adapter: which queue sends by which queue pair
// (fabric/rdma/tuples/initiators.h), how much spare room receives have (tuple_memory.h).
#include <gtest/gtest.h>

#include "fabric/rdma/tuples/initiators.h"
#include "fabric/rdma/tuples/tuple_memory.h"

namespace tern::rdma {
namespace {

struct InitiatorsTest : testing::Test {
  Initiator* offer(TupleSendQueue& asker, size_t most) {
    return initiators.offer(asker, most, [this](std::unique_ptr<QueuePair>&) {
      ++made;
      return fails ? Error(ErrorClass::other, "none left") : Error();
    });
  }
  Initiators initiators;
  struct Queue final : TupleSendQueue {
  } one, other;
  int made = 0;
  bool fails = false;
};

TEST_F(InitiatorsTest, OneIsOfferedToOneAskerAtATime) {
  Initiator* first = offer(one, 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(offer(other, 1), nullptr);
  EXPECT_EQ(initiators.take_offered(other), nullptr);
  EXPECT_EQ(initiators.take_offered(one), first);
  EXPECT_EQ(initiators.take_offered(one), nullptr);
  // It was refused: the next asker offers it again, and none is made.
  EXPECT_EQ(offer(other, 1), first);
  EXPECT_EQ(made, 1);
}

TEST_F(InitiatorsTest, AConnectedOneBelongsToOneQueueUntilItIsFree) {
  Initiator* first = offer(one, 2);
  EXPECT_EQ(initiators.occupy(one), nullptr);  // not connected yet
  initiators.take_offered(one)->connected = true;
  EXPECT_EQ(initiators.occupy(other), first);
  EXPECT_EQ(initiators.occupy(one), nullptr);
  EXPECT_EQ(offer(one, 1), nullptr);
  Initiator* second = offer(one, 2);
  ASSERT_TRUE(second);
  EXPECT_NE(second, first);
  first->user = nullptr;
  EXPECT_EQ(initiators.occupy(one), first);
}

TEST_F(InitiatorsTest, WhereNoneCanBeMadeNoneIsOffered) {
  fails = true;
  EXPECT_EQ(offer(one, 2), nullptr);
  EXPECT_EQ(initiators.take_offered(one), nullptr);
  fails = false;
  EXPECT_TRUE(offer(one, 1));
}

constexpr size_t kMiB = size_t{1} << 20;

TEST(TupleMemory, TheLongestMessageHasRoomBehindAnyReceive) {
  EXPECT_EQ(TupleMemory(0, 4096, 7).longest_bytes(), 4096u);
  EXPECT_EQ(TupleMemory(0, 4096, 7).spare_pieces(), 1u);
  EXPECT_EQ(TupleMemory(0, 3 * kMiB + 64, 7).spare_pieces(), 4u);
  EXPECT_EQ(TupleMemory(0, 3 * kMiB + 64, 7).longest_bytes(), 3 * kMiB + 64);
}

TEST(TupleMemory, AdaptersOfFewPiecesTakeShorterMessages) {
  EXPECT_EQ(TupleMemory(0, 8 * kMiB, 3).longest_bytes(), 3 * kMiB);
  EXPECT_EQ(TupleMemory(0, 100 * kMiB, 100).longest_bytes(), TupleMemory::kMaxSparePieces * kMiB);
  EXPECT_EQ(TupleMemory(0, 0, 3).longest_bytes(), 0u);
}

}  // namespace
}  // namespace tern::rdma
