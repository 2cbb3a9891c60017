// RdmaPath against the contract of Path, below p2p: get and put in all their ways, greetings that are lost or cross,
// credits, and that a computing rank's memory is read and written meanwhile.
#include "fabric/rdma/rdma_path.h"

#include <gtest/gtest.h>

#include "datatype/construct.h"
#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "progress/engine.h"
#include "sim/adapter.h"
#include "sim/machine.h"
#include "sim/machine_file.h"
#include "tests/sim/rdma_bench.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

using Bench = RdmaBench;
using Sending = RdmaSending;
using Transfer = RdmaTransfer;

struct Exposed {
  uint64_t address;
  RemoteKey key;
};

std::vector<std::byte> bytes_of(const Exposed& exposed) {
  std::vector<std::byte> out(sizeof exposed);
  std::memcpy(out.data(), &exposed, sizeof exposed);
  return out;
}

Exposed exposed_in(const std::vector<std::byte>& bytes) {
  Exposed out;
  EXPECT_EQ(bytes.size(), sizeof out);
  std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

std::byte pattern(size_t at) { return std::byte(uint8_t(at * 13 + (at >> 9))); }

// Rank 1 gets from rank 0's memory and puts into it, contiguous and not, of all sizes.
void transfer_program(Bench& bench, bool is_put, size_t bytes, bool strided) {
  bool owner = bench.path->reaches(1);
  if (owner) {
    std::vector<std::byte> memory(bytes + 1);
    for (size_t i = 0; i < bytes && !is_put; ++i) memory[i] = pattern(i);
    RemoteKey key = bench.path->remote_memory()->expose(memory.data(), bytes, {.read = true, .write = true});
    bench.send(1, bytes_of({reinterpret_cast<uint64_t>(memory.data()), key}));
    bench.wait_messages(1, 1);  // "done": all bytes of a put are there when a later message is
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[i], pattern(i)) << "at " << i;
    EXPECT_EQ(memory[bytes], std::byte{});
    bench.path->remote_memory()->conceal(key);
    bench.finish();
    return;
  }
  PredefinedTypes types;
  Ref<Datatype> vector;
  size_t stride = strided ? 3 : 1;
  std::vector<std::byte> local(bytes * stride + 1);
  for (size_t i = 0; i < bytes && is_put; ++i) local[i * stride] = pattern(i);
  bench.wait_messages(0, 1);
  Exposed there = exposed_in(bench.sink.last);
  Transfer transfer;
  transfer.lane = &bench.path->lane(0);
  transfer.remote_address = there.address;
  transfer.key = there.key;
  transfer.bytes = bytes;
  if (strided) {
    EXPECT_FALSE(construct::vector(Count(bytes), 1, 3, types.get(type_id::kByte), vector));
    vector->commit();
    transfer.local = Cursor(local.data(), 1, *vector);
  } else {
    transfer.local = Cursor::bytes(local.data(), bytes);
  }
  bench.run(transfer, is_put);
  // A message may follow a put at once and still comes after it.
  if (!is_put) bench.engine.wait_until([&] { return transfer.calls != 0; });
  for (size_t i = 0; i < bytes && !is_put; ++i) ASSERT_EQ(local[i * stride], pattern(i)) << "at " << i;
  bench.send(0, {});
  bench.finish();
  EXPECT_EQ(transfer.calls, 1);
  EXPECT_FALSE(transfer.failed);
  EXPECT_EQ(bench.path->registrations().live(), 0u);
}

TEST(RdmaPathContract, GetsAndPutsAreExactInAllTheirWays) {
  for_seeds(12, [](uint64_t seed) {
    for (bool is_put : {false, true}) {
      for (bool strided : {false, true}) {
        for (size_t bytes : {size_t{0}, size_t{1}, size_t{300}, size_t{9000}, size_t{200'000}}) {
          Report report = Machine(rdma_options_of(seed)).run([&](Machine::Rank& rank) {
            Bench bench(rank);
            transfer_program(bench, is_put, bytes, strided);
          });
          ASSERT_TRUE(report.ok()) << report.failure << "\nput " << is_put << " strided " << strided << " bytes "
                                   << bytes;
        }
      }
    }
  });
}

// What cannot be registered has a zero key; a transfer with it fails and touches nothing.
TEST(RdmaPathContract, UnexposedMemoryIsAnErrorOfTheOperationOnly) {
  Report report = Machine(rdma_options_of(1)).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    PeerId peer = 1 - rank.index();
    std::byte memory[100] = {};
    Transfer transfer;
    transfer.lane = &bench.path->lane(peer);
    transfer.remote_address = 4096;
    transfer.bytes = sizeof memory;
    transfer.local = Cursor::bytes(memory, sizeof memory);
    bench.run(transfer, false);
    EXPECT_EQ(transfer.calls, 1);
    EXPECT_TRUE(transfer.failed);
    bench.send(peer, {});
    bench.wait_messages(peer, 1);
    EXPECT_TRUE(bench.sink.lost.empty());
    bench.finish();
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// All ranks greet all others at the same time while half of the greetings are lost; messages of all sizes come in
// order.
TEST(RdmaPathContract, CrossingAndLostGreetingsMakeOneConnectionEach) {
  for_seeds(30, [](uint64_t seed) {
    WorldOptions options = rdma_options_of(seed);
    options.ranks = 5;
    options.adapter_faults.datagram_loss_in_1024 = uint32_t(seed % 2 * 500);
    Report report = Machine(options).run([&](Machine::Rank& rank) {
      Bench bench(rank);
      constexpr int kMessages = 6;
      for (int i = 0; i < kMessages; ++i) {
        for (PeerId peer = 0; peer < 5; ++peer) {
          if (bench.path->reaches(peer))
            bench.send(peer, std::vector<std::byte>(size_t(i * i * i * 40), std::byte(uint8_t(i))));
        }
      }
      for (PeerId peer = 0; peer < 5; ++peer) {
        if (!bench.path->reaches(peer)) continue;
        bench.wait_messages(peer, kMessages);
      }
      EXPECT_EQ(bench.path->connections(), 4u);
      bench.finish();
    });
    ASSERT_TRUE(report.ok()) << report.failure;
  });
}

// A short poll takes the frames of peers; greetings and the ends of transfers are left to a poll.
TEST(RdmaPathContract, ShortPollsTakeFramesAndLeaveTheRest) {
  for_seeds(20, [](uint64_t seed) {
    Report report = Machine(rdma_options_of(seed)).run([&](Machine::Rank& rank) {
      Bench bench(rank);
      const PeerId peer = 1 - rank.index();
      constexpr int kMessages = 50;
      int left = 0;
      const auto await = [&](int count) {
        for (int looks = 1; bench.sink.next[peer] < count; ++looks) {
          if (bench.path->poll_shortly() < 0) {
            ++left;
            EXPECT_TRUE(bench.path->has_unsent());
            EXPECT_FALSE(bench.path->arm());
          } else if (looks % 1000 != 0) {  // else for its timers: a greeting may be lost
            continue;
          }
          (void)bench.path->poll();
        }
      };
      bench.send(peer, {});
      await(1);
      EXPECT_GE(left, 1) << "for the greeting";
      for (int i = 1; i < kMessages; ++i) {
        bench.send(peer, std::vector<std::byte>(size_t(i * 8)));
        if (i % 8 == 0) await(i);
      }
      await(kMessages);
      std::byte memory[100] = {}, local[100] = {std::byte{1}};
      const RemoteKey key = bench.path->remote_memory()->expose(memory, sizeof memory, {.read = true});
      bench.send(peer, bytes_of({reinterpret_cast<uint64_t>(memory), key}));
      await(kMessages + 1);
      const Exposed its = exposed_in(bench.sink.last);
      Transfer transfer;
      transfer.lane = &bench.path->lane(peer);
      transfer.remote_address = its.address;
      transfer.key = its.key;
      transfer.bytes = sizeof local;
      transfer.local = Cursor::bytes(local, sizeof local);
      bench.run(transfer, false);
      while (bench.path->poll_shortly() >= 0) {
      }
      EXPECT_EQ(transfer.calls, 0);
      EXPECT_EQ(bench.path->poll_shortly(), -1) << "until a poll has come";
      (void)bench.path->poll();
      EXPECT_EQ(transfer.calls, 1);
      EXPECT_EQ(local[0], std::byte{});
      bench.send(peer, {});
      bench.wait_messages(peer, kMessages + 2);
      bench.path->remote_memory()->conceal(key);
      bench.finish();
    });
    ASSERT_TRUE(report.ok()) << report.failure;
  });
}

// No connection is made to ranks that nobody talks to.
TEST(RdmaPathContract, ConnectionsAreMadeOnFirstContactOnly) {
  WorldOptions options = rdma_options_of(3);
  options.ranks = 8;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    PeerId partner = rank.index() ^ 1;
    bench.send(partner, {});
    bench.wait_messages(partner, 1);
    bench.finish();
    EXPECT_EQ(bench.path->connections(), 1u);
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// The way of small messages, for counting instructions (callgrind): nothing else happens in this test.
TEST(RdmaPathContract, EightBytePingPong) {
  WorldOptions options = rdma_options_of(2);
  options.adapter_faults = {};
  constexpr int kRounds = 1000;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    PeerId me = rank.index(), peer = 1 - me;
    for (int i = 0; i < kRounds; ++i) {
      if (me == 0) bench.send(peer, std::vector<std::byte>(8));
      bench.wait_messages(peer, i + 1);
      if (me == 1) bench.send(peer, std::vector<std::byte>(8));
    }
    bench.finish();
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// A receiver that computes for long holds its peers to their windows; everything still arrives, nothing is retried for
// lack of receives as long as the windows fit.
TEST(RdmaPathContract, CreditsHoldSendersToTheirWindow) {
  WorldOptions options = rdma_options_of(4);
  options.ranks = 3;
  options.tunables.rdma_receives = 64;
  options.tunables.rdma_window = 16;
  uint64_t nacks = 0;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    if (rank.index() == 0) {
      bench.send(1, {});
      bench.send(2, {});
      bench.engine.wait_until([&] { return bench.sink.next[1] > 0 && bench.sink.next[2] > 0; });
      bench.strand.charge_ns(5'000'000);
      bench.wait_messages(1, 300);
      bench.wait_messages(2, 300);
    } else {
      for (int i = 0; i < 300; ++i) bench.send(0, std::vector<std::byte>(200));
      bench.wait_messages(0, 1);
    }
    bench.finish();
    if (rank.index() == 0) nacks = rank.machine.adapters().node(0).rnr_nacks;
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  EXPECT_EQ(nacks, 0u);
}

// The owner of the memory computes from beginning to end, and the peer gets all of it meanwhile.
TEST(RdmaPathContract, AComputingRanksMemoryIsReadMeanwhile) {
  WorldOptions options = rdma_options_of(5);
  options.adapter.max_message_bytes = 1 << 30;
  constexpr size_t kBytes = 1 << 20;
  constexpr uint64_t kCompute_ns = 2'000'000;
  uint64_t got_ns = 0, computed_ns = 0;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    if (rank.index() == 0) {
      std::vector<std::byte> memory(kBytes);
      for (size_t i = 0; i < kBytes; ++i) memory[i] = pattern(i);
      RemoteKey key = bench.path->remote_memory()->expose(memory.data(), kBytes, {.read = true, .write = true});
      bench.send(1, bytes_of({reinterpret_cast<uint64_t>(memory.data()), key}));
      bench.engine.wait_until([&] { return !bench.path->has_unsent(); });
      bench.strand.charge_ns(kCompute_ns);
      computed_ns = bench.strand.now_ns();
      bench.wait_messages(1, 1);
      bench.path->remote_memory()->conceal(key);
      bench.finish();
      return;
    }
    std::vector<std::byte> local(kBytes);
    bench.wait_messages(0, 1);
    uint64_t begin = bench.strand.now_ns();
    Exposed there = exposed_in(bench.sink.last);
    Transfer transfer;
    transfer.lane = &bench.path->lane(0);
    transfer.remote_address = there.address;
    transfer.key = there.key;
    transfer.bytes = kBytes;
    transfer.local = Cursor::bytes(local.data(), kBytes);
    bench.run(transfer, false);
    bench.engine.wait_until([&] { return transfer.calls != 0; });
    got_ns = bench.strand.now_ns();
    uint64_t wire_ns = kBytes * 1000 / rank.machine.options().network.adapter_bytes_per_us;
    EXPECT_LT(got_ns - begin, wire_ns + 40'000) << "the link and one registration, nothing else";
    for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(local[i], pattern(i));
    bench.send(0, {});
    bench.finish();
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  EXPECT_LT(got_ns, computed_ns);
}

// The adapter dies under a get, a queued message and a peer that nobody has talked to yet: all of them end with an
// error.
TEST(RdmaPathContract, AFailedAdapterEndsEverythingWithAnError) {
  WorldOptions options = rdma_options_of(6);
  options.ranks = 3;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    std::vector<std::byte> memory(1 << 20);
    if (rank.index() == 1) {
      RemoteKey key = bench.path->remote_memory()->expose(memory.data(), memory.size(), {.read = true, .write = true});
      bench.send(0, bytes_of({reinterpret_cast<uint64_t>(memory.data()), key}));
      bench.finish();
      bench.path->remote_memory()->conceal(key);
      return;
    }
    if (rank.index() == 2) {
      bench.finish();
      return;
    }
    bench.wait_messages(1, 1);
    Exposed there = exposed_in(bench.sink.last);
    Transfer transfer;
    transfer.lane = &bench.path->lane(1);
    transfer.remote_address = there.address;
    transfer.key = there.key;
    transfer.bytes = memory.size();
    transfer.local = Cursor::bytes(memory.data(), memory.size());
    bench.run(transfer, false);
    bench.send(1, std::vector<std::byte>(100'000));
    rdma::AsyncEvent event;
    event.kind = rdma::AsyncEventKind::fatal;
    const_cast<SimHca&>(static_cast<const SimHca&>(bench.path->hca())).raise(event);
    bench.engine.wait_until([&] { return bench.sink.lost.size() == 1; });
    EXPECT_EQ(transfer.calls, 1);
    EXPECT_TRUE(transfer.failed);
    bench.send(2, {});
    bench.engine.wait_until([&] { return bench.sink.lost.size() == 2; });
    for (const Sending& sending : bench.queue) EXPECT_TRUE(sending.failed);
    bench.finish();
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// The published ping-pong of Small and Yuan 2009 (5.1) with the sender-initiated protocol by RDMA write, done by hand:
//   rts -> ; <- cts ; data (put), fin ->     67 us a round trip at 16 KB
TEST(RdmaPathContract, DracosRendezvousPingPongIsNearThePublishedTime) {
  MachineModel machine;
  ASSERT_FALSE(load_machine(TERN_MACHINES "/draco-ddr.toml", machine));
  WorldOptions options;
  options.network = machine.network;
  options.adapter = machine.adapter;
  options.keep_registrations = true;
  options.tunables.rdma_keepalive_ms = 0;
  options.tunables.rdma_eager_bytes = 12 * 1024;
  constexpr size_t kBytes = 16 * 1024;
  constexpr int kRounds = 20;
  uint64_t round_trip_ns = 0;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    PeerId me = rank.index(), peer = 1 - me;
    std::vector<std::byte> buffer(kBytes);
    bench.send(peer, {});
    bench.wait_messages(peer, 1);
    int seen = 1;
    uint64_t begin = 0;
    for (int i = 0; i < 2 * (kRounds + 1); ++i) {
      if (i == 2) begin = bench.strand.now_ns();  // connections and registrations are there
      if (PeerId(i % 2) == me) {
        bench.send(peer, std::vector<std::byte>(32));
        bench.wait_messages(peer, ++seen);
        Exposed there = exposed_in(bench.sink.last);
        Transfer transfer;
        transfer.lane = &bench.path->lane(peer);
        transfer.remote_address = there.address;
        transfer.key = there.key;
        transfer.bytes = kBytes;
        transfer.local = Cursor::bytes(buffer.data(), kBytes);
        bench.run(transfer, true);
        bench.send(peer, {});  // behind the data, without waiting for it
        bench.engine.wait_until([&] { return transfer.calls != 0; });
      } else {
        bench.wait_messages(peer, ++seen);
        RemoteKey key = bench.path->remote_memory()->expose(buffer.data(), kBytes, {.read = true, .write = true});
        bench.send(peer, bytes_of({reinterpret_cast<uint64_t>(buffer.data()), key}));
        bench.wait_messages(peer, ++seen);
        bench.path->remote_memory()->conceal(key);
      }
    }
    if (me == 0) round_trip_ns = (bench.strand.now_ns() - begin) / kRounds;
    bench.finish();
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  // The paper measured 67 us. No parameter of the machine is fitted to that, and the prediction is a quarter below it
  // (bench/testbed compares the whole figure).
  EXPECT_NEAR(double(round_trip_ns), 67'000.0, 0.3 * 67'000.0);
}

}  // namespace
}  // namespace tern::sim
