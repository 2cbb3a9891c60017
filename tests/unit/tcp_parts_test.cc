// The parts of the TCP path that need no connection: who is admitted (admission.h), which connections a poll reads
// (hot_links.h), when calls are due (call_timers.h), where a stream calls and when its peer is lost (call_policy.h),
// which peers are lost in the next poll (peers.h).
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "fabric/ip/kernel_streams.h"
#include "fabric/tcp/admission.h"
#include "fabric/tcp/call_policy.h"
#include "fabric/tcp/call_timers.h"
#include "fabric/tcp/hot_links.h"
#include "fabric/tcp/peers.h"

namespace tern::tcp {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

TEST(TcpParts, TheOldestThatHasNotGreetedMakesRoom) {
  const TcpIdentity identity{};
  std::deque<tcp::Setup> setups;
  Admission admission;
  EXPECT_EQ(admission.victim(0), nullptr);
  EXPECT_EQ(admission.next_deadline_ns(), ~uint64_t{0});
  for (size_t i = 0; i < Admission::kMaxUnproven; ++i) {
    EXPECT_FALSE(admission.full());
    admission.add(setups.emplace_back(identity), kSecond + i);
  }
  EXPECT_TRUE(admission.full());
  EXPECT_EQ(admission.victim(2 * kSecond), &setups[0]);
  admission.remove(setups[0]);
  admission.remove(setups[0]);  // nothing for one that is not there
  EXPECT_EQ(admission.unproven(), Admission::kMaxUnproven - 1);
  EXPECT_EQ(admission.victim(2 * kSecond), &setups[1]);
  EXPECT_EQ(admission.next_deadline_ns(), setups[1].deadline_ns);
  EXPECT_EQ(admission.expired(setups[1].deadline_ns - 1), nullptr);
  EXPECT_EQ(admission.expired(setups[1].deadline_ns), &setups[1]);
}

TEST(TcpParts, AcceptingPausesAndGoesOn) {
  Admission admission;
  EXPECT_FALSE(admission.resume(kSecond));
  admission.pause(kSecond);
  EXPECT_TRUE(admission.paused());
  const uint64_t over_ns = admission.next_deadline_ns();
  EXPECT_GT(over_ns, kSecond);
  EXPECT_FALSE(admission.resume(over_ns - 1));
  EXPECT_TRUE(admission.resume(over_ns));
  EXPECT_FALSE(admission.paused());
  EXPECT_FALSE(admission.resume(over_ns));
}

TEST(TcpParts, WhatBringsSomethingIsReadFirst) {
  Link links[6];
  HotLinks hot;
  EXPECT_EQ(hot.read([](Link&) { return 1; }), 0);
  for (Link& link : links) hot.heat(link);
  hot.heat(links[0]);
  EXPECT_TRUE(hot.any([&](const Link& link) { return &link == &links[0]; }));
  // One that is not the first brings something: soon it is the first, and alone is read.
  Link* brings = nullptr;
  hot.any([&](const Link& link) {
    if (&link != &links[0]) brings = const_cast<Link*>(&link);
    return brings != nullptr;
  });
  ASSERT_NE(brings, nullptr);
  int reads = 0;
  while (hot.read([&](Link& link) { return int(&link == brings); }) == 0) ASSERT_LT(++reads, 100);
  reads = 0;
  EXPECT_EQ(hot.read([&](Link& link) { return ++reads, int(&link == brings); }), 1);
  EXPECT_EQ(reads, 1);
  for (Link& link : links) hot.cool(link);
  EXPECT_TRUE(hot.empty());
}

struct NoSink final : Sink {
  void on_message(Lane&, const wire::Header&, const std::byte*, size_t) override {}
  Landing on_header(Lane&, const wire::Header&, size_t) override { return {}; }
  void on_landed(Lane&, const wire::Header&, Landing&, size_t, Error) override {}
  void on_peer_lost(Lane&, Error) override {}
};

TEST(TcpParts, CallsAreDueAtTheirTime) {
  KernelStreams port;
  TcpOutbound::Shared sending{.port = port};
  NoSink nobody;
  Peer first(1, nobody, sending), second(2, nobody, sending);
  CallTimers timers;
  timers.set(first.first(), true);
  timers.set(first.first(), true);
  timers.set(second.first(), true);
  first.first().retry_ns = 10;
  second.first().retry_ns = 20;
  EXPECT_EQ(timers.next_deadline_ns(), 10u);
  std::vector<Stream*> due;
  const auto note = [&](Stream& stream) {
    due.push_back(&stream);
    timers.set(stream, false);
  };
  timers.run(9, note);
  EXPECT_TRUE(due.empty());
  second.doomed = true;  // it is lost in the next poll: nothing more is due for it
  timers.run(30, note);
  EXPECT_EQ(due, std::vector<Stream*>{&first.first()});
  EXPECT_EQ(timers.next_deadline_ns(), ~uint64_t{0});
  timers.set(second.first(), false);
  EXPECT_TRUE(timers.empty());
}

std::vector<TcpCandidate> three_ways() {
  std::vector<TcpCandidate> ways(3);
  ways[0].network = ways[2].network = 1;
  ways[1].network = 2;
  return ways;
}

TEST(TcpParts, AStreamPrefersItsOwnNetwork) {
  CallPolicy first, second;
  first.begin(three_ways(), 0, 0, 30 * kSecond);
  second.begin(three_ways(), 1, 0, 30 * kSecond);
  EXPECT_EQ(first.next(false)->network, 1u);
  EXPECT_EQ(first.next(false)->network, 1u);
  EXPECT_EQ(first.next(false)->network, 2u);
  EXPECT_EQ(first.next(false), nullptr);
  EXPECT_EQ(second.next(true)->network, 2u);
  EXPECT_EQ(second.next(true), nullptr);
  first.avoid(1);
  EXPECT_EQ(first.next(false)->network, 2u);
  first.succeed();
  EXPECT_TRUE(first.wants_back_from(2));
  EXPECT_FALSE(first.wants_back_from(1));
}

// Fails all addresses in turn; returns what follows.
CallPolicy::Outcome fail_round(CallPolicy& call, CallPolicy::Failure why, uint64_t now_ns, bool connected = false) {
  KernelStreams port;
  while (call.next(false)) call.failed("address: no", why, connected, now_ns);
  return call.end_round(port, now_ns);
}

TEST(TcpParts, APeerWhoseAddressesAllRefuseIsLostAfterSomeRounds) {
  CallPolicy call;
  call.begin(three_ways(), 0, 0, 30 * kSecond);
  EXPECT_EQ(fail_round(call, CallPolicy::Failure::refused, 1), CallPolicy::Outcome::pause);
  const uint64_t first_pause = call.pause_ns();
  EXPECT_EQ(fail_round(call, CallPolicy::Failure::refused, 2), CallPolicy::Outcome::pause);
  EXPECT_EQ(call.pause_ns(), 2 * first_pause);
  EXPECT_EQ(call.troubles(), "address: no; address: no; address: no");
  EXPECT_EQ(fail_round(call, CallPolicy::Failure::refused, 3), CallPolicy::Outcome::lost);
}

TEST(TcpParts, APeerThatCannotBeReachedIsLostWhenItsTimeIsOver) {
  CallPolicy call;
  call.begin(three_ways(), 0, 0, 30 * kSecond);
  for (uint64_t now = kSecond; now < 30 * kSecond; now += kSecond)
    ASSERT_EQ(fail_round(call, CallPolicy::Failure::unreachable, now), CallPolicy::Outcome::pause);
  EXPECT_EQ(fail_round(call, CallPolicy::Failure::unreachable, 30 * kSecond), CallPolicy::Outcome::lost);
  // One that hung up was alive: its time begins again, once.
  call.begin(three_ways(), 0, 0, 30 * kSecond);
  EXPECT_EQ(fail_round(call, CallPolicy::Failure::other, 20 * kSecond, true), CallPolicy::Outcome::pause);
  EXPECT_EQ(fail_round(call, CallPolicy::Failure::other, 49 * kSecond, true), CallPolicy::Outcome::pause);
  EXPECT_EQ(fail_round(call, CallPolicy::Failure::other, 50 * kSecond, true), CallPolicy::Outcome::lost);
}

TEST(TcpParts, AConnectionThatWasClosedAndIsRefusedMeansThatTheProcessHasEnded) {
  for (bool closed : {false, true}) {
    CallPolicy call;
    call.begin(three_ways(), 0, 0, 30 * kSecond);
    call.succeed();
    call.note_closed(closed);
    call.begin(three_ways(), 0, kSecond, 30 * kSecond);
    (void)call.next(false);
    EXPECT_EQ(call.attempt_ends_ns(kSecond), 2 * kSecond);
    call.failed("address: no", CallPolicy::Failure::refused, false, kSecond);
    EXPECT_EQ(fail_round(call, CallPolicy::Failure::unreachable, kSecond),
              closed ? CallPolicy::Outcome::lost : CallPolicy::Outcome::pause);
  }
}

TEST(TcpParts, TheLastAddressOfAFirstCallIsTriedToTheEndOfItsTime) {
  CallPolicy call;
  call.begin(three_ways(), 0, 0, 30 * kSecond);
  (void)call.next(false);
  EXPECT_EQ(call.attempt_ends_ns(0), 2 * kSecond);
  (void)call.next(false);
  (void)call.next(false);
  EXPECT_EQ(call.attempt_ends_ns(0), 30 * kSecond);
}

TEST(TcpParts, WhoIsDoomedMeanwhileIsForTheNextPoll) {
  KernelStreams port;
  TcpOutbound::Shared sending{.port = port};
  NoSink nobody;
  PeerTable table({0, 0}, 3);
  Peers peers(table, nobody, sending);
  EXPECT_FALSE(peers.reaches(0));
  Peer& one = peers.at(1);
  EXPECT_EQ(&peers.at(1), &one);
  peers.doom(one, 1, "first");
  peers.doom(one, 2, "second");
  std::vector<Peer*> lost;
  const auto note = [&](Peer& peer) {
    lost.push_back(&peer);
    if (lost.size() == 1) peers.doom(peers.at(2), 1, "third");
  };
  peers.visit_doomed(note);
  EXPECT_EQ(lost, std::vector<Peer*>{&one});
  EXPECT_EQ(one.trouble, "second");
  EXPECT_TRUE(peers.any_doomed());
  peers.visit_doomed(note);
  EXPECT_EQ(lost, (std::vector<Peer*>{&one, &peers.at(2)}));
  EXPECT_FALSE(peers.any_doomed());
}

}  // namespace
}  // namespace tern::tcp
