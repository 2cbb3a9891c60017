// Credit for eager data: what a pair of ranks has available, on its way and owed always adds up to the window.
#include "p2p/core/eager_credit.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/rng.h"

namespace tern {
namespace {

constexpr int64_t kWindowBytes = 1 << 16;
constexpr size_t kPayloadBytes = 200;  // 4 units and one for the message
constexpr uint32_t kUnits = 5;

TEST(EagerCredit, IsRefusedWhenTheWindowIsFull) {
  EagerCredit sender(kWindowBytes);
  uint32_t taken = 0;
  while (sender.take(kPayloadBytes)) ++taken;
  EXPECT_EQ(taken, kWindowBytes / EagerCredit::kUnitBytes / kUnits);
  EXPECT_FALSE(sender.covers(kPayloadBytes));
  sender.untake(kPayloadBytes);
  EXPECT_TRUE(sender.covers(kPayloadBytes));
  EXPECT_TRUE(sender.take(kPayloadBytes));
  EXPECT_FALSE(sender.take(kPayloadBytes));
}

TEST(EagerCredit, AnEmptyMessageCosts) {
  EagerCredit sender(4 * EagerCredit::kUnitBytes);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(sender.take(0));
  EXPECT_FALSE(sender.take(0));
}

TEST(EagerCredit, IsSettledAtFiveEighths) {
  EagerCredit receiver(kWindowBytes);
  const auto window = uint32_t(kWindowBytes / EagerCredit::kUnitBytes);
  while (!receiver.consume(kPayloadBytes)) ASSERT_LT(receiver.owed(), window);
  EXPECT_GE(receiver.owed(), window * 5 / 8);
  EXPECT_LT(receiver.owed(), window * 5 / 8 + kUnits);
  EXPECT_TRUE(receiver.half_due());
  receiver.settled();
  EXPECT_EQ(receiver.owed(), 0u);
  EXPECT_FALSE(receiver.half_due());
}

TEST(EagerCredit, LittleIsNotCarried) {
  EagerCredit receiver(kWindowBytes);
  EXPECT_FALSE(receiver.consume(kPayloadBytes));
  EXPECT_EQ(receiver.carry(), 0);
  EXPECT_EQ(receiver.owed(), kUnits);
}

TEST(EagerCredit, WhatAMessageCarriesFitsItsHeader) {
  EagerCredit receiver(int64_t{1} << 30);
  static_cast<void>(receiver.consume(size_t{100} << 20));
  const uint32_t owed = receiver.owed();
  const uint16_t carried = receiver.carry();
  EXPECT_EQ(carried, UINT16_MAX);
  EXPECT_EQ(receiver.owed(), owed - carried);
  receiver.uncarry(carried);
  EXPECT_EQ(receiver.owed(), owed);
}

// Whatever a peer claims, no more is ever outstanding than the window.
TEST(EagerCredit, AWrongReturnDoesNotExceedTheWindow) {
  EagerCredit sender(kWindowBytes);
  sender.returned(UINT32_MAX);
  sender.returned(UINT32_MAX);
  uint32_t taken = 0;
  while (sender.take(kPayloadBytes)) ++taken;
  EXPECT_EQ(taken, kWindowBytes / EagerCredit::kUnitBytes / kUnits);
}

TEST(EagerCredit, NothingMakesUpForALostPeer) {
  EagerCredit sender(kWindowBytes);
  sender.close();
  sender.returned(UINT32_MAX);
  sender.untake(kPayloadBytes);
  EXPECT_FALSE(sender.covers(0));
  EXPECT_FALSE(sender.take(0));
}

// Two ranks, messages both ways in random order, some of which could not leave.
TEST(EagerCredit, NothingIsLostBetweenTwoRanks) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    const auto window_bytes = int64_t(4096 + rng.below(1 << 18));
    const int64_t units = window_bytes / EagerCredit::kUnitBytes;
    EagerCredit ends[2] = {EagerCredit(window_bytes), EagerCredit(window_bytes)};
    struct Message {
      size_t bytes;
      uint16_t carried;
    };
    std::deque<Message> wire[2];     // towards rank 0, 1
    std::deque<size_t> unread[2];    // at rank 0, 1
    std::deque<uint32_t> credit[2];  // messages of credit towards rank 0, 1
    for (int step = 0; step < 2000; ++step) {
      const int me = int(rng.below(2)), other = 1 - me;
      const size_t bytes = rng.below(3000);
      switch (rng.below(4)) {
        case 0:
          if (!ends[me].take(bytes)) break;
          if (const uint16_t carried = ends[me].carry(); rng.below(4) == 0) {
            ends[me].untake(bytes);
            ends[me].uncarry(carried);
          } else {
            wire[other].push_back({bytes, carried});
          }
          break;
        case 1:
          if (wire[me].empty()) break;
          ends[me].returned(wire[me].front().carried);
          unread[me].push_back(wire[me].front().bytes);
          wire[me].pop_front();
          break;
        case 2:
          if (unread[me].empty()) break;
          if (ends[me].consume(unread[me].front())) {
            credit[other].push_back(ends[me].owed());
            ends[me].settled();
          }
          unread[me].pop_front();
          break;
        default:
          if (credit[me].empty()) break;
          ends[me].returned(credit[me].front());
          credit[me].pop_front();
      }
    }
    for (int me = 0; me < 2; ++me) {
      const int other = 1 - me;
      for (const Message& m : wire[me]) ends[me].returned(m.carried);
      for (uint32_t returned : credit[me]) ends[me].returned(returned);
      for (const Message& m : wire[other]) static_cast<void>(ends[other].consume(m.bytes));
      for (size_t bytes : unread[other]) static_cast<void>(ends[other].consume(bytes));
    }
    for (int me = 0; me < 2; ++me) {
      ends[me].returned(ends[1 - me].owed());
      int64_t left = 0;
      while (ends[me].take(0)) ++left;
      ASSERT_EQ(left, units) << "round " << round;
    }
  }
}

}  // namespace
}  // namespace tern
