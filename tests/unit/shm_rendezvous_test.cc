// Large messages between two processes over real shared memory: who is there first decides who copies, and the other
// one may compute. With and without cross-memory attach.
#include <gtest/gtest.h>

#include "datatype/kind.h"
#include "p2p/point_to_point.h"
#include "p2p/protocols/protocol.h"
#include "tests/unit/shm_helpers.h"

namespace tern::test {
namespace {

constexpr uint64_t kContext = 4;
constexpr size_t kSmallest = 10'000, kMedium = 40'000, kLarge = 500'000;  // beyond eager

struct TwoRanks {
  RealClock clock;
  Driving driving;
  KernelWait port;
  ProgressEngine progress;
  PointToPoint p2p;
  ShmPath path;
  PredefinedTypes types;
  int rank;
  Common& common;

  TwoRanks(int me, std::unique_ptr<ShmNode> node, Common& c, const Tunables& tunables)
      : progress(clock, driving, port, WaitPolicy::Setup::of(tunables, false)),
        p2p(progress, tunables),
        path(std::move(node), p2p.sink(), tunables),
        rank(me),
        common(c) {
    progress.add(path);
    p2p.add_path(path);
  }
  const Datatype& byte() { return types.get(type_id::kByte); }
  SendArguments to_peer(std::vector<std::byte>& data, int tag) {
    return {data.data(), Count(data.size()), &byte(), PeerId(1 - rank), rank, tag, kContext, SendMode::standard};
  }
  ReceiveArguments from_peer(std::vector<std::byte>& data, int tag) {
    return {data.data(), Count(data.size()), &byte(), PeerId(1 - rank), 1 - rank, tag, kContext};
  }
  // Outside of the library: the two meet in memory that it knows nothing of.
  void say(int what) { common.words[what].store(1); }
  void await(int what) {
    while (common.words[what].load() == 0) sched_yield();
  }
  uint64_t sent_by(Protocol protocol) { return p2p.report().counters().sent[size_t(protocol)]; }
  uint64_t received_by(Protocol protocol) {
    uint64_t sum = 0;
    for (const uint64_t count : p2p.report().counters().received[size_t(protocol)]) sum += count;
    return sum;
  }
  bool finish() {
    common_fence(common, 2);
    progress.wait_until([&] { return p2p.quiet(); });
    EXPECT_EQ(p2p.report().open_announcements(), 0u);
    common_fence(common, 2);
    return true;
  }
};

std::vector<std::byte> message(size_t bytes, uint32_t number) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = pattern(0, number, i);
  return data;
}

// The receiver posts and computes: the message lands under it without a poll of its own.
TEST(ShmRendezvous, ReceiverEarly) {
  run_processes(2, 65536, [](int rank, std::unique_ptr<ShmNode> node, Common& common) {
    TwoRanks me(rank, std::move(node), common, Tunables{});
    bool attach = me.path.remote_memory()->can_put(me.path.lane(PeerId(1 - rank)));
    for (int i = 0; i < 4; ++i) {
      std::vector<std::byte> expected = message(i % 2 ? kMedium : kLarge, uint32_t(i));
      if (rank == 0) {
        me.await(2 * i);
        EXPECT_FALSE(me.p2p.send(me.to_peer(expected, i)));
        me.say(2 * i + 1);
        continue;
      }
      std::vector<std::byte> data(expected.size());
      Request* request = me.p2p.ireceive(me.from_peer(data, i));
      me.say(2 * i);
      if (attach) {
        me.await(2 * i + 1);
        EXPECT_EQ(data, expected) << "nobody has polled here";
      }
      me.p2p.wait(*request);
      EXPECT_FALSE(request->error);
      EXPECT_EQ(data, expected);
      request->release();
    }
    if (rank == 0 && attach) {
      EXPECT_EQ(me.sent_by(Protocol::receiver_put), 4u);
    }
    return me.finish();
  });
}

// The sender waits and the receiver is late: the sender copies and is free. The receiver finds the copy, however the
// announcement of the message has reached it.
TEST(ShmRendezvous, SenderWaitsForALateReceiver) {
  run_processes(2, 65536, [](int rank, std::unique_ptr<ShmNode> node, Common& common) {
    TwoRanks me(rank, std::move(node), common, Tunables{});
    const bool can_get = me.path.remote_memory()->can_get(me.path.lane(PeerId(1 - rank)));
    constexpr int kMessages = 20;  // more than library buffers: they come back
    for (int i = 0; i < kMessages; ++i) {
      std::vector<std::byte> expected = message(kMedium, uint32_t(i));
      if (rank == 0) {
        std::vector<std::byte> data = expected;
        Request* request = me.p2p.isend(me.to_peer(data, i));
        EXPECT_EQ(request->complete(), !can_get);
        me.p2p.wait(*request);
        EXPECT_FALSE(request->error);
        request->release();
        data.assign(data.size(), std::byte{0x55});  // ours again
        me.say(2 * i);
        me.await(2 * i + 1);
        continue;
      }
      std::vector<std::byte> data(expected.size());
      me.await(2 * i);
      if (i % 2 == 1) me.progress.poll();  // has seen the message before it posts the receive
      Request* request = me.p2p.ireceive(me.from_peer(data, i));
      me.p2p.wait(*request);
      EXPECT_FALSE(request->error);
      EXPECT_EQ(data, expected);
      request->release();
      me.say(2 * i + 1);
    }
    if (rank == 0 && can_get) {
      EXPECT_EQ(me.p2p.report().counters().copied_out, uint64_t(kMessages));
    }
    return me.finish();
  });
}

// The sender starts and computes: free at once of a message up to a quarter of the hybrid limit, and of a longer one
// without a poll of its own as soon as the receiver has taken it. What cannot be fetched is copied up to the limit.
TEST(ShmRendezvous, SenderEarly) {
  for (int attach = 0; attach < 2; ++attach) {
    run_processes(2, 65536, [attach](int rank, std::unique_ptr<ShmNode> node, Common& common) {
      Tunables tunables;
      tunables.shm_cma = attach;
      TwoRanks me(rank, std::move(node), common, tunables);
      bool can_get = me.path.remote_memory()->can_get(me.path.lane(PeerId(1 - rank)));
      for (int i = 0; i < 6; ++i) {
        const size_t bytes = i % 3 == 0 ? kLarge : i % 3 == 1 ? kMedium : kSmallest;
        const bool copied = bytes == kSmallest || (bytes == kMedium && !can_get);
        std::vector<std::byte> expected = message(bytes, uint32_t(i));
        if (rank == 0) {
          std::vector<std::byte> data = expected;
          Request* request = me.p2p.isend(me.to_peer(data, i));
          EXPECT_EQ(request->complete(), copied);
          if (copied) data.assign(data.size(), std::byte{0x55});  // ours again
          me.say(2 * i);
          if (can_get) me.await(2 * i + 1);
          me.p2p.wait(*request);
          EXPECT_FALSE(request->error);
          request->release();
          continue;
        }
        me.await(2 * i);
        std::vector<std::byte> data(expected.size());
        Status status;
        EXPECT_FALSE(me.p2p.receive(me.from_peer(data, i), status));
        me.say(2 * i + 1);
        EXPECT_EQ(data, expected);
        EXPECT_EQ(status.bytes, Count(expected.size()));
      }
      if (rank == 0) {
        EXPECT_EQ(me.sent_by(Protocol::hybrid), can_get ? 2u : 4u);
      }
      return me.finish();
    });
  }
}

// A blocking send has nothing to compute: it copies up to the hybrid limit, and returns.
TEST(ShmRendezvous, BlockingSenderEarly) {
  run_processes(2, 65536, [](int rank, std::unique_ptr<ShmNode> node, Common& common) {
    TwoRanks me(rank, std::move(node), common, Tunables());
    std::vector<std::byte> expected = message(kMedium, 1);
    if (rank == 0) {
      EXPECT_FALSE(me.p2p.send(me.to_peer(expected, 1)));
      me.say(1);
      EXPECT_EQ(me.sent_by(Protocol::hybrid), 1u);
      return me.finish();
    }
    me.await(1);
    std::vector<std::byte> data(kMedium);
    Status status;
    EXPECT_FALSE(me.p2p.receive(me.from_peer(data, 1), status));
    EXPECT_EQ(data, expected);
    return me.finish();
  });
}

/// As if `messages` of kLarge bytes had taken so long.
void note(shm::PairRates& rates, int messages, uint64_t stream_ns, uint64_t attach_ns) {
  for (int i = 0; i < messages; ++i) {
    rates.took(shm::CopyRates::Kind::stream, kLarge, kLarge, stream_ns);
    rates.took(shm::CopyRates::Kind::attach, kLarge, kLarge, attach_ns);
  }
}

// Who receives a long message at the same time takes no part in copying the one that it sends, though one message alone
// would be faster as a stream.
TEST(ShmRendezvous, AnExchangeIsNotStreamedBothWays) {
  run_processes(2, 65536, [](int rank, std::unique_ptr<ShmNode> node, Common& common) {
    constexpr int kRounds = 20;
    if (rank == 0) note(node->rates(0, 1), 10, 1000, 1500);  // shorter than any real time, which then changes nothing
    TwoRanks me(rank, std::move(node), common, Tunables{});
    const bool can_get = me.path.remote_memory()->can_get(me.path.lane(PeerId(1 - rank)));
    std::vector<std::byte> expected = message(kLarge, 1), data(kLarge);
    for (int i = 0; i < kRounds; ++i) {
      std::fill(data.begin(), data.end(), std::byte{});
      Request* request = me.p2p.ireceive(me.from_peer(data, i));
      common_fence(common, 2);  // so each knows of the other's receive
      EXPECT_FALSE(me.p2p.send(me.to_peer(expected, i)));
      me.p2p.wait(*request);
      EXPECT_EQ(data, expected);
      request->release();
    }
    if (can_get) {
      const uint64_t put = me.received_by(Protocol::sender_put) + me.received_by(Protocol::receiver_put);
      common.words[rank].store(me.path.counters().shm_fetched_bytes / kLarge + put);
      common_fence(common, 2);
      // If one rank is late, the other one has put its message before; then what the late one sends goes one way.
      EXPECT_GE(common.words[0].load() + common.words[1].load(), uint64_t{kRounds} * 3 / 4);
    }
    return me.finish();
  });
}

// More medium messages than there are library buffers, unread; then read in another order.
TEST(ShmRendezvous, LibraryBuffersRunOut) {
  run_processes(2, 65536, [](int rank, std::unique_ptr<ShmNode> node, Common& common) {
    Tunables tunables;
    tunables.hybrid_buffers = 5;
    TwoRanks me(rank, std::move(node), common, tunables);
    constexpr int kMessages = 20;
    for (int round = 0; round < 3; ++round) {
      if (rank == 0) {
        std::vector<std::vector<std::byte>> data;
        std::vector<Request*> requests;
        for (int i = 0; i < kMessages; ++i) {
          data.push_back(message(kSmallest, uint32_t(i)));
          requests.push_back(me.p2p.isend(me.to_peer(data.back(), 100 * round + i)));
        }
        me.say(round);
        for (Request* request : requests) {
          me.p2p.wait(*request);
          request->release();
        }
        EXPECT_GT(me.p2p.report().counters().no_buffer, 0u);
        EXPECT_GE(me.sent_by(Protocol::hybrid), 5u);
      } else {
        me.await(round);
        for (int i = kMessages - 1; i >= 0; --i) {
          std::vector<std::byte> data(kSmallest);
          Status status;
          EXPECT_FALSE(me.p2p.receive(me.from_peer(data, 100 * round + i), status));
          EXPECT_EQ(data, message(kSmallest, uint32_t(i)));
        }
      }
    }
    return me.finish();
  });
}

// Both directions at once, many sizes, sometimes early and sometimes late.
TEST(ShmRendezvous, Traffic) {
  for (const char* mode : {"customised", "rput", "rget", "stream"}) {
    run_processes(2, 65536, [mode](int rank, std::unique_ptr<ShmNode> node, Common& common) {
      Tunables tunables;
      tunables.rendezvous = mode;
      TwoRanks me(rank, std::move(node), common, tunables);
      Rng mine(uint64_t(rank) + 1), sizes(99);
      for (int i = 0; i < 60; ++i) {
        size_t bytes = 5000 + sizes.below(uint64_t{1} << (4 + sizes.below(17)));
        std::vector<std::byte> out = message(bytes, uint32_t(i)), in(bytes);
        bool late = mine.chance(1, 2);
        Request* receive = late ? nullptr : me.p2p.ireceive(me.from_peer(in, 7));
        Request* send = me.p2p.isend(me.to_peer(out, 7));
        if (mine.chance(1, 3)) usleep(unsigned(mine.below(300)));
        if (late) receive = me.p2p.ireceive(me.from_peer(in, 7));
        me.p2p.wait(*send);
        me.p2p.wait(*receive);
        EXPECT_EQ(in, message(bytes, uint32_t(i))) << mode << " " << i;
        send->release();
        receive->release();
      }
      return me.finish();
    });
  }
}

}  // namespace
}  // namespace tern::test
