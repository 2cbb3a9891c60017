// What a communicator's info changes of tuple queues: one communicator may ask for them, and assertions spare it the
// preparations for wildcards.
#include <gtest/gtest.h>

#include <vector>

#include "tests/sim/tuple_side.h"

namespace tern::sim {
namespace {

constexpr uint64_t kOther = uint64_t{2} << 2;

TEST(TupleHints, OneCommunicatorAsksForQueues) {
  WorldOptions options = tuple_world();
  options.tunables.rendezvous = "customised";
  Report report = World(options).run([](Process& process) {
    Side side(process);
    char c = 0;
    // Before and after, in both contexts; with lengths of all protocols.
    std::vector<uint8_t> data(100'000), in(100'000);
    for (int phase = 0; phase < 2; ++phase) {
      const uint64_t before = sent_by_queue(process);
      for (int i = 0; i < 40; ++i) {
        for (uint64_t context : {kContext, kOther}) {
          const size_t bytes = size_t(i % 4 == 3 ? 100'000 : i * 10);
          const uint8_t value = uint8_t(i + 2 * phase + (context == kOther));
          if (side.me == 0) {
            std::fill(data.begin(), data.end(), value);
            SendArguments a = side.to(data.data(), bytes, 1);
            a.context = context;
            EXPECT_FALSE(side.p2p.send(a));
          } else {
            ReceiveArguments a = side.from(in.data(), bytes, 1);
            a.context = context;
            Request* request = side.p2p.ireceive(a);
            side.finish(request);
            EXPECT_TRUE(bytes == 0 || (in[0] == value && in[bytes - 1] == value)) << i;
          }
        }
        if (side.me == 0) side.receive(&c, 1, 7);  // at times the receiver is early, at times the sender
        else side.send(&c, 1, 7);
      }
      if (side.me == 0) {
        EXPECT_EQ(sent_by_queue(process) - before > 30, phase == 1);
        EXPECT_LE(sent_by_queue(process) - before, 40u);  // none of the other context
      }
      MessageHints hints;
      hints.tuple_queues = true;
      side.p2p.set_hints(kContext, hints);
    }
    side.p2p.forget_hints(kContext);
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// The sender computes, so that the queue of tag 1 cannot stop meanwhile. A receive of tag 2, whose message is here,
// does not wait for that if an assertion says that nothing depends on it.
void wait_behind_a_stop(const MessageHints& hints, bool by_probe, bool passes) {
  constexpr uint64_t kLate_ns = 500'000'000;
  Report report = World(tuple_world()).run([&](Process& process) {
    Side side(process);
    side.p2p.set_hints(kContext, hints);
    side.open(1);
    uint8_t one = 1, two = 2, in = 0, wild = 0;
    if (side.me == 0) {
      side.send(&two, 1, 2);
      process.clock().charge_ns(kLate_ns);
      side.send(&one, 1, 1);
      return;
    }
    process.clock().charge_ns(1'000'000);
    process.progress().poll();
    const uint64_t began_ns = process.clock().now_ns();
    Status status;
    Request* waiting = nullptr;
    if (by_probe) {
      EXPECT_FALSE(side.p2p.iprobe(side.other, 1, kContext, status));
    } else {
      ReceiveArguments any = side.from(&wild, 1, 1);
      any.peer = kNoPeer;
      any.source = kAnySource;
      waiting = side.p2p.ireceive(any);
    }
    EXPECT_EQ(process.progress().counters().tuple_stops_wildcard, 1u);
    side.receive(&in, 1, 2);
    EXPECT_EQ(in, 2);
    EXPECT_EQ(process.clock().now_ns() - began_ns < kLate_ns / 2, passes);
    if (waiting) {
      side.finish(waiting);
      EXPECT_EQ(wild, 1);
    } else {
      side.receive(&in, 1, 1);
      EXPECT_EQ(in, 1);
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(TupleHints, WithoutAssertionsReceivesWaitBehindAWildcard) {
  wait_behind_a_stop({}, false, false);
  wait_behind_a_stop({}, true, false);
}

TEST(TupleHints, WithoutWildcardsNothingWaits) {
  MessageHints hints;
  hints.no_any_source = true;
  wait_behind_a_stop(hints, true, false);  // MPI_ANY_TAG may still come
  hints.no_any_tag = true;
  wait_behind_a_stop(hints, true, true);
}

TEST(TupleHints, WithOvertakingNothingWaits) {
  MessageHints hints;
  hints.allow_overtaking = true;
  wait_behind_a_stop(hints, false, true);
  wait_behind_a_stop(hints, true, true);
}

}  // namespace
}  // namespace tern::sim
