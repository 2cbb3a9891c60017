// What tuple queues promise, case by case, over simulated adapters: nobody's processor is needed, a late receive holds
// up no other tuple, a message that is too long harms nothing else, cancelled messages leave no trace, a lost rank is
// reported, and a program with very many tags works.
#include <gtest/gtest.h>

#include "tests/sim/lost_rank.h"
#include "tests/sim/seeds.h"
#include "tests/sim/tuple_side.h"

namespace tern::sim {
namespace {

TEST(TupleQueues, ReceivesFillWhileTheirRankComputes) {
  constexpr int kMessages = 100;
  Report report = World(tuple_world()).run([](Process& process) {
    Side side(process);
    side.open(1);
    std::vector<std::vector<uint8_t>> data(kMessages, std::vector<uint8_t>(20'000));
    std::vector<Request*> requests;
    if (side.me == 1) {
      for (auto& memory : data) requests.push_back(side.p2p.ireceive(side.from(memory.data(), memory.size(), 1)));
      side.send(nullptr, 0, 2);
      process.clock().charge_ns(100'000'000);  // without a call
      process.progress().poll();
      for (int i = 0; i < kMessages; ++i) {
        EXPECT_TRUE(data[size_t(i)].front() == uint8_t(i) && data[size_t(i)].back() == uint8_t(i)) << i;
      }
    } else {
      side.receive(nullptr, 0, 2);
      const uint64_t before = sent_by_queue(process);
      for (int i = 0; i < kMessages; ++i) {
        data[size_t(i)].assign(20'000, uint8_t(i));
        requests.push_back(side.p2p.isend(side.to(data[size_t(i)].data(), 20'000, 1)));
      }
      EXPECT_EQ(sent_by_queue(process) - before, uint64_t(kMessages));
    }
    for (Request* request : requests) side.finish(request);
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// The other completion queue, by which nothing comes then, does not become slower to look at.
TEST(TupleQueues, APingPongDoesNotSlowDown) {
  for (int64_t copy_bytes : {0, 8192}) {
    Report report = World(tuple_world(copy_bytes)).run([](Process& process) {
      Side side(process);
      side.open(1);
      uint64_t data = 0, began[202] = {};
      for (uint64_t& round : began) {
        round = process.clock().now_ns();
        if (side.me == 0) side.send(&data, sizeof data, 1);
        side.receive(&data, sizeof data, 1);
        if (side.me == 1) side.send(&data, sizeof data, 1);
      }
      if (side.me != 0) return;
      const auto took = [&](int first) { return double(began[first + 1] - began[first]); };
      EXPECT_NEAR(took(200) / took(10), 1, 0.1) << took(10) << " and " << took(200) << " ns";
    });
    EXPECT_TRUE(report.ok()) << report.failure;
  }
}

// The receive of tag 1 is posted only when tag 2 has come, over and over: with one way for both the second message
// would never come.
TEST(TupleQueues, ALateReceiveHoldsUpNoOtherTuple) {
  for (int64_t ways : {1, 2, 4}) {
    WorldOptions options = tuple_world();
    options.tunables.tuple_ways = ways;
    Report report = World(options).run([&](Process& process) {
      Side side(process);
      side.open(1);
      side.open(2);
      std::vector<uint8_t> late(5000, 1), other(5000, 2), in(5000);
      for (int i = 0; i < 10; ++i) {
        if (side.me == 0) {
          Request* first = side.p2p.isend(side.to(late.data(), late.size(), 1));
          Request* second = side.p2p.isend(side.to(other.data(), other.size(), 2));
          side.finish(second);
          side.finish(first);
        } else {
          side.receive(in.data(), in.size(), 2);
          EXPECT_EQ(in, other);
          side.receive(in.data(), in.size(), 1);
          EXPECT_EQ(in, late);
        }
      }
      const Counters& counters = process.progress().counters();
      if (side.me == 0 && ways == 1) {
        EXPECT_GT(counters.tuple_stops_busy, 0u);
      }
      if (side.me == 0 && ways > 1) {
        EXPECT_EQ(counters.tuple_stops_busy, 0u);
      }
    });
    EXPECT_TRUE(report.ok()) << report.failure;
  }
}

TEST(TupleQueues, AMessageThatIsTooLongEndsItsReceiveWithAnErrorAndNothingElse) {
  Report report = World(tuple_world()).run([](Process& process) {
    Side side(process);
    side.open(1);
    std::vector<uint8_t> data(3'000'000, uint8_t(7)), in(3'000'000);
    for (size_t bytes : {size_t(1), size_t(4000), data.size()}) {
      if (side.me == 0) {
        const uint64_t before = sent_by_queue(process);
        side.send(data.data(), bytes, 1);
        side.send(data.data(), bytes, 1);
        EXPECT_EQ(sent_by_queue(process) - before, 2u);
        continue;
      }
      const size_t room = bytes / 2;
      Status status;
      std::fill(in.begin(), in.end(), uint8_t(0));
      Error error = side.p2p.receive(side.from(in.data(), room, 1), status);
      EXPECT_EQ(error.error_class(), int(ErrorClass::truncate));
      EXPECT_EQ(size_t(status.bytes), room);
      EXPECT_EQ(in[room], 0);
      EXPECT_EQ(size_t(side.receive(in.data(), in.size(), 1).bytes), bytes);
      EXPECT_EQ(in[bytes - 1], 7);
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(TupleQueues, CancelledSendsAndReceivesOfAQueue) {
  Report report = World(tuple_world()).run([](Process& process) {
    Side side(process);
    side.open(1);
    uint8_t first = 1, second = 2, third = 3, in = 0;
    if (side.me == 0) {
      // None of them has a receive. The middle one is taken back; its neighbours arrive.
      Request* requests[] = {side.p2p.isend(side.to(&first, 1, 1)), side.p2p.isend(side.to(&second, 1, 1)),
                             side.p2p.isend(side.to(&third, 1, 1))};
      requests[1]->cancel();
      side.p2p.wait(*requests[1]);  // though its receiver takes nothing yet
      EXPECT_TRUE(requests[1]->status.cancelled);
      requests[1]->release();
      side.send(nullptr, 0, 2);
      side.finish(requests[0]);
      side.finish(requests[2]);
      EXPECT_EQ(process.progress().counters().tuple_stops_cancel, 1u);
    } else {
      side.receive(nullptr, 0, 2);
      side.receive(&in, 1, 1);
      EXPECT_EQ(in, 1);
      side.receive(&in, 1, 1);
      EXPECT_EQ(in, 3);
    }
    side.open(1);
    if (side.me == 0) {
      side.receive(nullptr, 0, 4);
      side.send(&second, 1, 1);
      return;
    }
    uint8_t unused = 0;
    Request* cancelled = side.p2p.ireceive(side.from(&unused, 1, 1));
    cancelled->cancel();
    side.p2p.wait(*cancelled);
    EXPECT_TRUE(cancelled->status.cancelled);
    cancelled->release();
    EXPECT_EQ(process.progress().counters().tuple_stops_cancel, 1u);
    Request* kept = side.p2p.ireceive(side.from(&in, 1, 1));
    side.send(nullptr, 0, 4);
    side.finish(kept);
    EXPECT_EQ(in, 2);
    EXPECT_EQ(unused, 0);
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// A wildcard takes the oldest message, though that is in a queue and a younger one of another tag is here already.
TEST(TupleQueues, AWildcardTakesTheOldestMessageWhicheverWayItCame) {
  Report report = World(tuple_world()).run([](Process& process) {
    Side side(process);
    side.open(1);
    uint8_t one = 1, two = 2, in = 0;
    if (side.me == 0) {
      Request* first = side.p2p.isend(side.to(&one, 1, 1));
      side.send(&two, 1, 5);  // no queue: eager
      side.finish(first);
    } else {
      process.clock().charge_ns(1'000'000);
      process.progress().poll();
      ReceiveArguments any = side.from(&in, 1, kAnyTag);
      any.tag = kAnyTag;
      Status status;
      EXPECT_FALSE(side.p2p.receive(any, status));
      EXPECT_EQ(status.tag, 1);
      EXPECT_EQ(in, 1);
      EXPECT_FALSE(side.p2p.receive(any, status));
      EXPECT_EQ(status.tag, 5);
      EXPECT_EQ(process.progress().counters().tuple_stops_wildcard, 1u);
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(TupleQueues, ALostRankIsReported) {
  for_seeds(10, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = tuple_world(seed % 2 ? 8192 : 0);
    options.seed = seed;
    options.ranks = 3;
    options.tunables.rdma_keepalive_ms = int64_t(1 + rng.below(20));
    options.faults.losses.push_back({1, 3'000'000 + rng.below(3'000'000), 1});
    Report report = World(options).run([](Process& process) { live_through_a_death(process, "RDMA"); });
    EXPECT_TRUE(report.ok()) << report.failure;
  });
}

}  // namespace
}  // namespace tern::sim
