// The parts of the TCP path that need no connection: who is admitted (admission.h), which connections a poll reads
// (hot_links.h), when calls are due (call_timers.h).
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "fabric/ip/kernel_streams.h"
#include "fabric/tcp/admission.h"
#include "fabric/tcp/call_timers.h"
#include "fabric/tcp/hot_links.h"

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

TEST(TcpParts, CallsAreDueAtTheirTime) {
  KernelStreams port;
  TcpOutbound::Shared sending{.port = port};
  struct NoSink final : Sink {
    void on_message(Lane&, const wire::Header&, const std::byte*, size_t) override {}
    Landing on_header(Lane&, const wire::Header&, size_t) override { return {}; }
    void on_landed(Lane&, const wire::Header&, Landing&, size_t, Error) override {}
    void on_peer_lost(Lane&, Error) override {}
  } nobody;
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

}  // namespace
}  // namespace tern::tcp
