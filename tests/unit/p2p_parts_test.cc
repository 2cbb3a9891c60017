// The parts of point-to-point alone: library buffers, control messages with the releases they take along, unexpected
// messages, announcements, heartbeat.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "p2p/core/control_messages.h"
#include "p2p/core/library_buffers.h"
#include "p2p/core/receives.h"
#include "p2p/matching/unexpected.h"
#include "p2p/protocols/announcements.h"
#include "tests/unit/narrow_path.h"
#include "tests/unit/still.h"

namespace tern {
namespace {

using test::NobodyWaits, test::StillClock;

using test::NarrowPath;

constexpr int64_t kWindowBytes = 1 << 16;
constexpr uint64_t kContext = 64;

struct PartsTest : testing::Test {
  PartsTest() { endpoints.add_path(path); }
  Endpoint& peer() { return endpoints.at(1); }
  size_t sent_of(wire::Kind kind) const {
    return size_t(std::count_if(path.sent.begin(), path.sent.end(), [&](auto& header) { return header.kind == kind; }));
  }

  StillClock clock;
  Driving driving;
  NobodyWaits port;
  ProgressEngine progress{clock, driving, port};
  NarrowPath path;
  Endpoints endpoints{kWindowBytes};
  ControlMessages control{progress, endpoints};
};

// --- Library buffers

struct LibraryBuffersTest : PartsTest {
  LibraryBuffersTest() { path.offers_memory = true; }
  LibraryBuffers buffers{2};
};

TEST_F(LibraryBuffersTest, AreAtMostSoManyAndComeBack) {
  LibraryBuffers::Loan first = buffers.borrow(peer()), second = buffers.borrow(peer());
  ASSERT_TRUE(first && second);
  EXPECT_NE(first.memory(), second.memory());
  EXPECT_FALSE(buffers.any_for(peer()));
  EXPECT_FALSE(buffers.borrow(peer()));
  std::byte* memory = second.memory();
  second = LibraryBuffers::Loan();
  EXPECT_TRUE(buffers.any_for(peer()));
  LibraryBuffers::Loan again = buffers.borrow(peer());
  ASSERT_TRUE(again);
  EXPECT_EQ(again.memory(), memory);
  EXPECT_EQ(path.exposed, 2);  // exposed once each, for good
}

TEST_F(LibraryBuffersTest, ALoanThatMovesIsGivenBackOnce) {
  {
    LibraryBuffers::Loan loan = buffers.borrow(peer());
    LibraryBuffers::Loan moved = std::move(loan);
    EXPECT_FALSE(loan);
    EXPECT_TRUE(moved);
  }
  LibraryBuffers::Loan first = buffers.borrow(peer()), second = buffers.borrow(peer());
  ASSERT_TRUE(first && second);
  EXPECT_NE(first.memory(), second.memory());
}

TEST_F(LibraryBuffersTest, APathThatRefusesMeansNone) {
  path.exposes = false;
  EXPECT_TRUE(buffers.any_for(peer()));
  EXPECT_FALSE(buffers.borrow(peer()));
  path.exposes = true;
  EXPECT_TRUE(buffers.borrow(peer()));
}

TEST_F(LibraryBuffersTest, ThePathsOwnMemoryComesFirst) {
  path.offers_arbiter = true;
  path.lendable.resize(1);
  LibraryBuffers::Loan lent = buffers.borrow(peer()), own = buffers.borrow(peer());
  ASSERT_TRUE(lent && own);
  EXPECT_EQ(lent.memory(), path.lendable.data());
  EXPECT_EQ(lent.key().words[0], 1000u);
  EXPECT_EQ(path.exposed, 1);
}

// --- Control messages and releases

TEST_F(PartsTest, AReleaseGoesAlongWithTheNextMessage) {
  control.owe_release(peer(), 7);
  EXPECT_TRUE(path.sent.empty());
  control.post(peer(), wire::make_control_header(wire::Kind::fin, 3));
  control.post(peer(), wire::make_control_header(wire::Kind::fin, 4));
  ASSERT_EQ(path.sent.size(), 2u);
  EXPECT_EQ(path.sent[0].carried, 7);
  EXPECT_EQ(path.sent[1].carried, 0);
  EXPECT_FALSE(control.flush_all_releases());
  EXPECT_FALSE(progress.has_work());
}

TEST_F(PartsTest, ManyReleasesGoByTheirOwnMessage) {
  for (uint16_t name = 1; name <= 4; ++name) control.owe_release(peer(), name);
  EXPECT_EQ(sent_of(wire::Kind::release), 1u);
  EXPECT_TRUE(peer().owed_releases.empty());
  EXPECT_FALSE(progress.has_work());
}

TEST_F(PartsTest, AReleaseDoesNotWaitForeverForAMessage) {
  control.owe_release(peer(), 7);
  EXPECT_TRUE(progress.has_work());
  int polls = 0;
  while (sent_of(wire::Kind::release) == 0 && polls < 1000) progress.poll(), ++polls;
  EXPECT_GT(polls, 100);
  EXPECT_LT(polls, 1000);
  EXPECT_FALSE(progress.has_work());
}

TEST_F(PartsTest, ARankThatIsAboutToSleepTellsOfReleases) {
  control.owe_release(peer(), 7);
  EXPECT_FALSE(progress.arm_all(Driving::Armed::sleeper));  // there was something to do
  EXPECT_EQ(sent_of(wire::Kind::release), 1u);
  EXPECT_TRUE(progress.arm_all(Driving::Armed::sleeper));
  progress.disarm_all();
}

TEST_F(PartsTest, NothingIsOwedToALostPeer) {
  control.owe_release(peer(), 7);
  EXPECT_TRUE(endpoints.lose(peer(), Error(ErrorClass::proc_aborted, "gone")));
  control.forget(peer());
  control.post(peer(), wire::make_control_header(wire::Kind::fin, 3));
  EXPECT_FALSE(control.flush_all_releases());
  EXPECT_TRUE(path.sent.empty());
  EXPECT_FALSE(progress.has_work());
}

TEST_F(PartsTest, OnlyTheseMessagesAreAcknowledged) {
  const auto acknowledged = [&](wire::Kind kind, uint8_t flags) {
    path.sent.clear();
    control.acknowledge(peer(), wire::make_header(kind, 0, kContext, 1, 5, flags));
    return sent_of(wire::Kind::sync_ack) == 1 && path.sent[0].token == 5;
  };
  EXPECT_TRUE(acknowledged(wire::Kind::eager_sync, 0));
  EXPECT_TRUE(acknowledged(wire::Kind::direct, wire::kWantsAck));
  EXPECT_FALSE(acknowledged(wire::Kind::direct, 0));
  EXPECT_FALSE(acknowledged(wire::Kind::eager, wire::kRequested));
}

// --- Heartbeat

TEST_F(PartsTest, TheHeartbeatLastsAsLongAsSomebodyMayAsk) {
  Heartbeat heartbeat(progress);
  heartbeat.set_arbiter(path);
  progress.poll();
  EXPECT_EQ(path.heartbeats, 0);
  {
    Heartbeat::Hold first(heartbeat);
    Heartbeat::Hold second;
    second = Heartbeat::Hold(heartbeat);
    progress.poll();
    EXPECT_EQ(path.heartbeats, 1);
    first = Heartbeat::Hold();
    progress.poll();
    EXPECT_EQ(path.heartbeats, 2);
  }
  EXPECT_FALSE(progress.has_work());
  progress.poll();
  EXPECT_EQ(path.heartbeats, 2);
}

// --- Unexpected messages

struct UnexpectedTest : PartsTest {
  wire::Header eager(int tag) const { return wire::make_header(wire::Kind::eager, 0, kContext, tag, 0); }
  Matching matching;
  Unexpected unexpected{progress, matching, progress.counters()};
};

TEST_F(UnexpectedTest, AreFoundInTheOrderOfArrival) {
  UnexpectedMessage& first = unexpected.keep(peer(), eager(1), 10);
  UnexpectedMessage& second = unexpected.keep(peer(), eager(2), 300);
  UnexpectedMessage& third = unexpected.keep(peer(), eager(1), 20);
  EXPECT_EQ(progress.counters().unexpected_queue, 3u);
  EXPECT_EQ(progress.counters().unexpected_bytes, 330u);
  EXPECT_EQ(unexpected.find(kContext, 0, 1), &first);
  EXPECT_EQ(unexpected.find(kContext, kAnySource, kAnyTag), &first);
  EXPECT_EQ(unexpected.find_last([](auto& message) { return message.tag == 1; }), &third);
  unexpected.hide(first);
  EXPECT_EQ(unexpected.find(kContext, 0, 1), &third);
  EXPECT_EQ(unexpected.find(kContext, kAnySource, kAnyTag), &second);
  EXPECT_EQ(second.status().bytes, 300);
  unexpected.destroy(first);
  for (UnexpectedMessage* message : {&second, &third}) {
    unexpected.hide(*message);
    unexpected.destroy(*message);
  }
  EXPECT_EQ(unexpected.find(kContext, kAnySource, kAnyTag), nullptr);
  EXPECT_EQ(progress.counters().unexpected_queue, 0u);
  EXPECT_EQ(progress.counters().unexpected_bytes, 0u);
}

TEST_F(UnexpectedTest, AnnouncementsKeepNoData) {
  UnexpectedMessage& message =
      unexpected.keep(peer(), wire::make_header(wire::Kind::rts, 0, kContext, 1, 9), size_t{1} << 30);
  EXPECT_EQ(message.kept_bytes(), 0u);
  EXPECT_FALSE(message.charged());
  EXPECT_EQ(progress.counters().unexpected_bytes, 0u);
}

// A sender that nobody reads fills its window, and no more; what is read makes room for as much again.
TEST_F(UnexpectedTest, AFloodIsBoundedByTheWindow) {
  Endpoint& sender = endpoints.at(2);
  Rng rng(1);
  std::vector<UnexpectedMessage*> kept;
  for (int step = 0; step < 20000; ++step) {
    const size_t bytes = rng.below(1000);
    if (rng.below(8) != 0) {
      if (!sender.credit.take(bytes)) continue;
      ASSERT_TRUE(sender.try_send_message(eager(1), nullptr, bytes));
      peer().eager_arrived(eager(1));
      kept.push_back(&unexpected.keep(peer(), eager(1), bytes));
      ASSERT_LE(progress.counters().unexpected_bytes, uint64_t(kWindowBytes));
    } else if (!kept.empty()) {
      UnexpectedMessage* message = kept.back();
      kept.pop_back();
      unexpected.hide(*message);
      if (peer().credit.consume(message->bytes)) {
        sender.credit.returned(peer().credit.owed());
        peer().credit.settled();
      }
      unexpected.destroy(*message);
    }
  }
  EXPECT_GT(progress.counters().unexpected_bytes_peak, uint64_t(kWindowBytes) / 2);
  EXPECT_EQ(sender.messages.sent(), peer().messages.arrived());
}

// --- Announcements

struct NoActions final : RequestActions {
  void begin(SendRequest&) override { FAIL(); }
  void begin(ReceiveRequest&) override { FAIL(); }
  void cancel(SendRequest&) override { FAIL(); }
  void cancel(SentRequest&) override { FAIL(); }
  void cancel(ReceiveRequest&) override { FAIL(); }
};

struct AnnouncementsTest : PartsTest {
  AnnouncementsTest() {
    path.offers_memory = true;
    path.set_ordered_writes();
  }
  ReceiveRequest& post(std::vector<std::byte>& buffer, int tag, int source = 0) {
    const ReceiveArguments a{.buffer = buffer.data(),
                             .count = Count(buffer.size()),
                             .type = &types.get(type_id::kByte),
                             .peer = source == kAnySource ? kNoPeer : 1,
                             .source = source,
                             .tag = tag,
                             .context = kContext};
    ReceiveRequest& receive = receives.make(a, source == kAnySource ? nullptr : &peer());
    receives.open(receive);
    receives.post(receive);
    return receive;
  }

  PredefinedTypes types;
  NoActions actions;
  ProtocolCounters counters;
  Heartbeat heartbeat{progress};
  Receives receives{progress, actions, heartbeat, progress.counters()};
  Announcements announcements{progress, receives, control, counters, true};
  std::vector<std::byte> buffers[3] = {std::vector<std::byte>(64), std::vector<std::byte>(64),
                                       std::vector<std::byte>(64)};
};

TEST_F(AnnouncementsTest, WhatIsAnnouncedIsExposedAndNamedUntilItIsComplete) {
  ReceiveRequest& receive = post(buffers[0], 1);
  announcements.announce(receive);
  EXPECT_EQ(sent_of(wire::Kind::ready), 1u);
  EXPECT_EQ(peer().announced.open, 1u);
  EXPECT_EQ(path.exposed, 1);
  ASSERT_TRUE(receive.offer);
  EXPECT_EQ(receives.find(receive.offer->token), &receive);
  const uint32_t token = receive.offer->token;
  receives.unpost(receive);
  receives.complete(receive);
  EXPECT_EQ(peer().announced.open, 0u);
  EXPECT_EQ(path.exposed, 0);
  EXPECT_EQ(receives.find(token), nullptr);
  EXPECT_FALSE(progress.has_work());
  EXPECT_EQ(receives.open(), 0u);
}

TEST_F(AnnouncementsTest, AWildcardBeforeItHidesWhichMessageItWillMatch) {
  post(buffers[0], kAnyTag, kAnySource);
  ReceiveRequest& receive = post(buffers[1], 1);
  announcements.announce(receive);
  EXPECT_EQ(receive.offer, nullptr);
  EXPECT_TRUE(path.sent.empty());
}

// A ready says in 16 bits how far back the oldest announced receive of its key is.
TEST_F(AnnouncementsTest, ManyAnnouncementsAfterAnOpenOneHideWhichMessageTheNextOfItsKeyWillMatch) {
  announcements.announce(post(buffers[0], 1));
  peer().announced.next_serial += 65534;
  announcements.announce(post(buffers[1], 1));
  EXPECT_EQ(sent_of(wire::Kind::ready), 2u);
  ++peer().announced.next_serial;
  ReceiveRequest& too_late = post(buffers[2], 1);
  announcements.announce(too_late);
  EXPECT_EQ(too_late.offer, nullptr);
  EXPECT_EQ(sent_of(wire::Kind::ready), 2u);
}

TEST_F(AnnouncementsTest, AChangedLastByteCompletesTheOldestOfItsKey) {
  ReceiveRequest& first = post(buffers[0], 1);
  announcements.announce(first);
  ReceiveRequest& second = post(buffers[1], 1);
  announcements.announce(second);
  buffers[1].back() = std::byte(1);  // the put of the second message is seen first
  EXPECT_EQ(announcements.check_watched(), 0);
  buffers[0].back() = std::byte(1);
  EXPECT_EQ(announcements.check_watched(), 2);
  EXPECT_TRUE(first.complete() && second.complete());
  EXPECT_EQ(first.status.bytes, 64);
  EXPECT_EQ(counters.received[size_t(Protocol::receiver_put)][size_t(Arrival::receiver)], 2u);
  EXPECT_FALSE(progress.has_work());
}

TEST_F(AnnouncementsTest, AMessageBehindAPutIsForTheNextReceive) {
  ReceiveRequest& first = post(buffers[0], 1);
  announcements.announce(first);
  ReceiveRequest& second = post(buffers[1], 1);
  buffers[0].back() = std::byte(1);
  ReceiveRequest* matched = announcements.receive_for(wire::make_header(wire::Kind::eager, 0, kContext, 1, 0));
  EXPECT_EQ(matched, &second);
  EXPECT_TRUE(first.complete());
}

TEST_F(AnnouncementsTest, ACancelWaitsUntilTheAnnouncementsBehindItAreWithdrawn) {
  ReceiveRequest& first = post(buffers[0], 1);  // not announced
  ReceiveRequest& second = post(buffers[1], 1);
  announcements.announce(second);
  EXPECT_TRUE(announcements.withdraw(first));
  EXPECT_EQ(sent_of(wire::Kind::withdraw), 1u);
  EXPECT_FALSE(first.complete());
  ReceiveRequest& third = post(buffers[2], 1);
  announcements.announce(third);
  EXPECT_EQ(third.offer, nullptr);  // which message it will match is not known yet
  announcements.on_withdrawn(peer(), wire::make_control_header(wire::Kind::withdrawn, first.offer->token));
  EXPECT_TRUE(first.complete());
  EXPECT_TRUE(first.status.cancelled);
  EXPECT_FALSE(second.offer->binding);
  EXPECT_FALSE(announcements.withdraw(second));
}

// Requests are recycled: what was to be cancelled, and met its message first, must not stay marked.
TEST_F(AnnouncementsTest, AReceiveThatMeetsItsMessageIsNoLongerCancelled) {
  ReceiveRequest& receive = post(buffers[0], 1);
  announcements.announce(receive);
  const uint32_t token = receive.offer->token;
  EXPECT_TRUE(announcements.withdraw(receive));
  EXPECT_TRUE(receive.cancelling());
  const wire::Header header = wire::make_header(wire::Kind::eager, 0, kContext, 1, 0);
  ASSERT_EQ(announcements.receive_for(header), &receive);
  receives.match(receive, peer(), header, 8);
  receives.complete(receive);
  EXPECT_FALSE(receive.status.cancelled);
  receive.release();
  ReceiveRequest& next = post(buffers[1], 1);
  EXPECT_EQ(&next, &receive);
  EXPECT_FALSE(next.cancelling());
  announcements.on_withdrawn(peer(), wire::make_control_header(wire::Kind::withdrawn, token));
  EXPECT_FALSE(next.complete());
}

TEST_F(AnnouncementsTest, AnAnswerOfAnotherPeerIsNotBelieved) {
  ReceiveRequest& receive = post(buffers[0], 1);
  announcements.announce(receive);
  EXPECT_TRUE(announcements.withdraw(receive));
  const uint32_t token = receive.offer->token;
  announcements.on_withdrawn(endpoints.at(2), wire::make_control_header(wire::Kind::withdrawn, token));
  EXPECT_FALSE(receive.complete());
  const wire::FilledBody body{64};
  const auto* bytes = reinterpret_cast<const std::byte*>(&body);
  announcements.on_filled(endpoints.at(2),
                          wire::make_header(wire::Kind::filled, 0, kContext, 1, token, wire::kTaken | wire::kLanded),
                          bytes, sizeof body);
  EXPECT_FALSE(receive.complete());
  announcements.on_filled(peer(), wire::make_control_header(wire::Kind::filled, token, wire::kTaken | wire::kLanded),
                          bytes, 3);
  EXPECT_FALSE(receive.complete());
  announcements.on_filled(peer(), wire::make_control_header(wire::Kind::filled, token, wire::kTaken | wire::kLanded),
                          bytes, sizeof body);
  EXPECT_TRUE(receive.complete());
}

}  // namespace
}  // namespace tern
