// An endpoint counts what a receive will match, and nothing else; a message that does not leave is not counted.
#include "p2p/core/endpoint.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/narrow_path.h"

namespace tern {
namespace {

using test::NarrowPath;

constexpr uint64_t kContext = 64;

wire::Header message(wire::Kind kind, int tag, uint8_t flags = 0) {
  return wire::make_header(kind, 0, kContext, tag, 7, flags);
}

struct EndpointTest : testing::Test {
  NarrowPath path;
  Endpoint endpoint{1, path, 1 << 20};
};

TEST_F(EndpointTest, CountsWhatTheSameKindsCountOnBothSides) {
  struct Case {
    wire::Kind kind;
    uint8_t flags;
    bool counted;
  };
  const Case cases[] = {{wire::Kind::eager, 0, true},
                        {wire::Kind::eager_sync, 0, true},
                        {wire::Kind::rts, wire::kHybrid, true},
                        {wire::Kind::direct, wire::kWantsAck, true},
                        {wire::Kind::filled, wire::kTaken, true},
                        {wire::Kind::filled, wire::kTaken | wire::kLanded, true},
                        {wire::Kind::filled, wire::kLanded, false},
                        {wire::Kind::cts, 0, false},
                        {wire::Kind::data, 0, false},
                        {wire::Kind::credit, 0, false},
                        {wire::Kind::ready, 0, false},
                        {wire::Kind::tuple_owed, 0, false},
                        {wire::kFirstWindowKind, 0, false}};
  uint32_t counted = 0;
  Endpoint peer_side(1, path, 1 << 20);
  path.room = 100;
  for (const Case& c : cases) {
    const wire::Header header = message(c.kind, 1, c.flags);
    EXPECT_EQ(is_message(header), c.counted);
    if (c.counted) EXPECT_TRUE(endpoint.try_send_message(header, nullptr, 0));
    else EXPECT_TRUE(endpoint.try_send(header, nullptr, 0));
    peer_side.arrived(header);
    counted += c.counted;
    EXPECT_EQ(endpoint.messages.sent(), counted);
    EXPECT_EQ(peer_side.messages.arrived(), counted);
  }
}

TEST_F(EndpointTest, AMessageIsCountedOnceWhetherItLeavesOrWaits) {
  const wire::Header header = message(wire::Kind::eager, 1);
  path.room = 0;
  EXPECT_FALSE(endpoint.try_send_message(header, nullptr, 0));
  EXPECT_EQ(endpoint.messages.sent(), 0u);
  SendOperation operation;
  operation.header = header;
  endpoint.enqueue_message(operation);
  EXPECT_EQ(endpoint.messages.sent(), 1u);
  EXPECT_EQ(operation.lane, &endpoint.lane());
  path.room = 1;
  EXPECT_TRUE(endpoint.try_send_message(header, nullptr, 0));
  EXPECT_EQ(endpoint.messages.sent(), 2u);
}

TEST_F(EndpointTest, UncountedMessagesCannotLeave) {
  path.room = 1;
  SendOperation operation;
  operation.header = message(wire::Kind::rts, 1);
  EXPECT_DEATH(static_cast<void>(endpoint.try_send(operation.header, nullptr, 0)), "is_message");
  EXPECT_DEATH(endpoint.enqueue(operation), "is_message");
}

TEST_F(EndpointTest, EagerMessagesBringCreditBack) {
  while (endpoint.credit.take(1000)) {
  }
  EXPECT_FALSE(endpoint.credit.covers(1000));
  endpoint.eager_arrived(wire::make_header(wire::Kind::eager, 0, kContext, 1, 0, 0, 17));
  EXPECT_EQ(endpoint.messages.arrived(), 1u);
  EXPECT_TRUE(endpoint.credit.take(1000));
}

Ready offer(const MessageCount& receiver, int tag, uint32_t ahead, uint32_t serial) {
  Ready ready;
  ready.context = kContext;
  ready.tag = tag;
  ready.token = serial;
  ready.body.arrived = receiver.arrived();
  ready.body.epoch = uint16_t(receiver.arrived_epoch());
  ready.body.serial = serial;
  ready.body.ahead = uint16_t(ahead);
  return ready;
}

TEST_F(EndpointTest, AnOfferIsForTheMessageThatTheCountSays) {
  Endpoint receiver(1, path, 1 << 20);
  path.room = 100;
  endpoint.messages.begin_log();
  uint32_t token = 0;
  EXPECT_EQ(endpoint.messages.offer(offer(receiver.messages, 5, 0, 1), token), SentLog::Verdict::held);
  ASSERT_NE(endpoint.messages.find(kContext, 5), nullptr);
  EXPECT_EQ(endpoint.messages.find(kContext, 6), nullptr);
  // Another key does not use it up, its own does.
  EXPECT_TRUE(endpoint.try_send_message(message(wire::Kind::eager, 6), nullptr, 0));
  ASSERT_NE(endpoint.messages.find(kContext, 5), nullptr);
  EXPECT_TRUE(endpoint.try_send_message(message(wire::Kind::rts, 5), nullptr, 0));
  EXPECT_EQ(endpoint.messages.find(kContext, 5), nullptr);
  // The receiver has seen neither when it announces again: its message has gone, an rts is named by its token.
  EXPECT_EQ(endpoint.messages.offer(offer(receiver.messages, 5, 0, 2), token), SentLog::Verdict::useless);
  EXPECT_EQ(token, 7u);
}

TEST_F(EndpointTest, OffersOfAnOlderEpochAreVoid) {
  Endpoint receiver(1, path, 1 << 20);
  path.room = 100;
  uint32_t token = 0;
  EXPECT_TRUE(endpoint.try_send_message(message(wire::Kind::eager, 5), nullptr, 0));
  const uint32_t epoch = endpoint.messages.restart_sent();
  EXPECT_EQ(endpoint.messages.sent(), 0u);
  EXPECT_EQ(endpoint.messages.offer(offer(receiver.messages, 5, 0, 1), token), SentLog::Verdict::unknown);
  receiver.messages.restart_arrived(epoch);
  EXPECT_EQ(endpoint.messages.offer(offer(receiver.messages, 5, 0, 2), token), SentLog::Verdict::held);
  endpoint.messages.withdraw(kContext, 5);
  EXPECT_EQ(endpoint.messages.find(kContext, 5), nullptr);
}

TEST(Endpoints, PostsCountWhatIsAMessage) {
  NarrowPath path;
  Endpoints endpoints(1 << 20);
  endpoints.add_path(path);
  Endpoint& endpoint = endpoints.at(3);
  path.room = 2;
  const wire::FilledBody body{8};
  endpoints.post(endpoint, message(wire::Kind::filled, 1, wire::kTaken), &body, sizeof body);
  endpoints.post(endpoint, message(wire::Kind::cts, 1));
  EXPECT_EQ(endpoint.messages.sent(), 1u);
  endpoints.post(endpoint, message(wire::Kind::filled, 1, wire::kTaken), &body, sizeof body);
  EXPECT_EQ(endpoint.messages.sent(), 2u);
  EXPECT_EQ(endpoints.posts_queued(), 1u);
  ASSERT_EQ(path.queued.size(), 1u);
  path.queued[0]->done(*path.queued[0], Error());
  EXPECT_EQ(endpoints.posts_queued(), 0u);
}

TEST(Endpoints, ALostPeerHasNoCreditAndNoOffers) {
  NarrowPath path;
  Endpoints endpoints(1 << 20);
  endpoints.add_path(path);
  Endpoint& endpoint = endpoints.at(3);
  Endpoint receiver(1, path, 1 << 20);
  uint32_t token = 0;
  EXPECT_EQ(endpoint.messages.offer(offer(receiver.messages, 5, 0, 1), token), SentLog::Verdict::held);
  EXPECT_TRUE(endpoints.lose(endpoint, Error(ErrorClass::proc_aborted, "gone")));
  EXPECT_FALSE(endpoints.lose(endpoint, Error(ErrorClass::proc_aborted, "gone again")));
  EXPECT_TRUE(endpoint.lost());
  EXPECT_FALSE(endpoint.credit.covers(0));
  EXPECT_EQ(endpoint.messages.find(kContext, 5), nullptr);
  EXPECT_EQ(endpoints.loss_of(3).text(), "gone");
  path.room = 1;
  endpoints.post(endpoint, message(wire::Kind::cts, 1));
  EXPECT_TRUE(path.sent.empty());
}

}  // namespace
}  // namespace tern
