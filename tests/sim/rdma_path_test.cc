// RdmaPath against the contract of Path, below p2p: get and put in all their ways, greetings that are lost or cross,
// credits, and that a computing rank's memory is read and written meanwhile.
#include "fabric/rdma/rdma_path.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "datatype/construct.h"
#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "progress/engine.h"
#include "sim/adapter.h"
#include "sim/machine.h"
#include "sim/machine_file.h"
#include "tests/peer_sink.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

/// Counts what arrives, and keeps the last message.
class Mailbox final : public test::PeerSink {
 public:
  void on_message(PeerId from, const wire::Header& header, const std::byte* payload, size_t bytes) override {
    EXPECT_EQ(header.tag, next[from]++) << "out of order";
    last.assign(payload, payload + bytes);
  }
  Landing on_header(PeerId from, const wire::Header&, size_t bytes) override {
    landing[from].assign(bytes, std::byte{});
    Landing result;
    result.target = Cursor::bytes(landing[from].data(), bytes);
    return result;
  }
  void on_landed(PeerId from, const wire::Header& header, Landing&, size_t bytes, Error error) override {
    EXPECT_FALSE(error) << error.text();
    on_message(from, header, landing[from].data(), bytes);
  }
  void on_peer_lost(PeerId peer, Error error) override {
    EXPECT_TRUE(bool(error));
    lost.push_back(peer);
  }
  std::map<PeerId, int> next;
  std::vector<PeerId> lost;
  std::vector<std::byte> last;
  std::map<PeerId, std::vector<std::byte>> landing;
};

struct Transfer : TransferOperation {
  int calls = 0;
  bool failed = false;
};

struct Sending : SendOperation {
  std::vector<std::byte> data;
  int calls = 0;
  bool failed = false;
};

struct Bench {
  explicit Bench(Machine::Rank& rank)
      : strand(rank.strand),
        clock(rank.make_clock()),
        idle(rank.make_idle()),
        launcher(rank.make_launcher()),
        peers({0, rank.index()}, uint32_t(launcher->size())),
        engine(*clock, *idle) {
    RdmaOptions options;
    options.peers = &peers;
    const NetworkModel& network = rank.machine.options().network;
    options.copy_bytes_per_us = network.copy_bytes_per_us;
    options.send_ns = network.send_ns;
    options.receive_ns = network.receive_ns;
    options.ring_poll_ns = rank.machine.options().adapter.poll_ns;
    options.keep = rank.machine.options().keep_registrations ? rdma::Keep::trusted : rdma::Keep::nothing;
    Error error;
    path = RdmaPath::create(
        options, rank.machine.options().tunables, rank.make_hca(), *clock, sink,
        [this](PeerId peer, std::string& card) { return launcher->get(int(peer), "rdma-card", card); }, error);
    EXPECT_FALSE(error) << error.text();
    EXPECT_FALSE(launcher->put("rdma-card", path->card()));
    EXPECT_FALSE(launcher->fence());
    engine.add(*path);
  }
  void send(PeerId to, std::vector<std::byte> data) {
    wire::Header header{wire::Kind::eager};
    header.tag = sent_[to]++;
    if (data.size() <= path->properties().eager_bytes &&
        path->try_send(path->lane(to), header, data.data(), data.size()))
      return;
    Sending& operation = queue.emplace_back();
    operation.lane = &path->lane(to);
    operation.header = header;
    operation.data = std::move(data);
    operation.payload = Cursor::bytes(operation.data.data(), operation.data.size());
    operation.done = [](SendOperation& self, Error error) {
      ++static_cast<Sending&>(self).calls;
      static_cast<Sending&>(self).failed = bool(error);
    };
    path->enqueue(operation);
  }
  void wait_messages(PeerId from, int count) {
    engine.wait_until([&] { return sink.next[from] >= count; });
  }
  void run(Transfer& transfer, bool is_put) {
    transfer.done = [](TransferOperation& self, Error error) {
      ++static_cast<Transfer&>(self).calls;
      static_cast<Transfer&>(self).failed = bool(error);
    };
    if (is_put) {
      path->put(transfer);
    } else {
      path->get(transfer);
    }
  }
  void finish() {
    engine.wait_until([&] { return !path->has_unsent(); });
    EXPECT_FALSE(launcher->fence());
    for (const Sending& operation : queue) EXPECT_EQ(operation.calls, 1);
  }

  Strand& strand;
  Mailbox sink;
  std::unique_ptr<Clock> clock;
  std::unique_ptr<Idle> idle;
  std::unique_ptr<Launcher> launcher;
  PeerTable peers;
  ProgressEngine engine;
  std::unique_ptr<RdmaPath> path;
  std::deque<Sending> queue;

 private:
  std::map<PeerId, int> sent_;
};

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

WorldOptions options_of(uint64_t seed) {
  Rng rng(seed * 71);
  WorldOptions options;
  options.seed = seed;
  options.tunables.rdma_keepalive_ms = 0;
  options.tunables.rdma_eager_bytes = int64_t(256 + rng.below(2000));
  options.tunables.rdma_sends = int64_t(8 + rng.below(8));
  options.adapter.max_message_bytes = uint32_t(5000 + rng.below(50'000));
  options.adapter.ordered_writes = rng.chance(1, 2);
  options.adapter_faults.datagram_loss_in_1024 = uint32_t(rng.below(2) * 500);
  return options;
}

// Rank 1 gets from rank 0's memory and puts into it, contiguous and not, of all sizes.
void transfer_program(Bench& bench, bool is_put, size_t bytes, bool strided) {
  bool owner = bench.path->reaches(1);
  if (owner) {
    std::vector<std::byte> memory(bytes + 1);
    for (size_t i = 0; i < bytes && !is_put; ++i) memory[i] = pattern(i);
    RemoteKey key = bench.path->expose(memory.data(), bytes, {.read = true, .write = true});
    bench.send(1, bytes_of({reinterpret_cast<uint64_t>(memory.data()), key}));
    bench.wait_messages(1, 1);  // "done": all bytes of a put are there when a later message is
    for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[i], pattern(i)) << "at " << i;
    EXPECT_EQ(memory[bytes], std::byte{});
    bench.path->conceal(key);
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
          Report report = Machine(options_of(seed)).run([&](Machine::Rank& rank) {
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
  Report report = Machine(options_of(1)).run([&](Machine::Rank& rank) {
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
    WorldOptions options = options_of(seed);
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

// No connection is made to ranks that nobody talks to.
TEST(RdmaPathContract, ConnectionsAreMadeOnFirstContactOnly) {
  WorldOptions options = options_of(3);
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
  WorldOptions options = options_of(2);
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
  WorldOptions options = options_of(4);
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
  WorldOptions options = options_of(5);
  options.adapter.max_message_bytes = 1 << 30;
  constexpr size_t kBytes = 1 << 20;
  constexpr uint64_t kComputeNs = 2'000'000;
  uint64_t got_ns = 0, computed_ns = 0;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    if (rank.index() == 0) {
      std::vector<std::byte> memory(kBytes);
      for (size_t i = 0; i < kBytes; ++i) memory[i] = pattern(i);
      RemoteKey key = bench.path->expose(memory.data(), kBytes, {.read = true, .write = true});
      bench.send(1, bytes_of({reinterpret_cast<uint64_t>(memory.data()), key}));
      bench.engine.wait_until([&] { return !bench.path->has_unsent(); });
      bench.strand.charge_ns(kComputeNs);
      computed_ns = bench.strand.now_ns();
      bench.wait_messages(1, 1);
      bench.path->conceal(key);
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
  WorldOptions options = options_of(6);
  options.ranks = 3;
  Report report = Machine(options).run([&](Machine::Rank& rank) {
    Bench bench(rank);
    std::vector<std::byte> memory(1 << 20);
    if (rank.index() == 1) {
      RemoteKey key = bench.path->expose(memory.data(), memory.size(), {.read = true, .write = true});
      bench.send(0, bytes_of({reinterpret_cast<uint64_t>(memory.data()), key}));
      bench.finish();
      bench.path->conceal(key);
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

constexpr ChannelKind kKinds[] = {ChannelKind::rc, ChannelKind::dc, ChannelKind::rc_rdma, ChannelKind::dc_rdma};

/// Ranks send to each other at random, and each has the others' messages come by another channel now and then.
struct SwitchTotals {
  uint64_t switches = 0, empty_polls = 0;
  size_t most_ring_bytes = 0;
};

void switching_program(Bench& bench, Rng& rng, uint32_t ranks, int messages, SwitchTotals& totals) {
  std::vector<int> left(ranks, messages);
  std::vector<PeerId> others;
  for (PeerId peer = 0; peer < ranks; ++peer) {
    if (bench.path->reaches(peer)) others.push_back(peer);
  }
  for (int unsent = messages * int(others.size()); unsent > 0;) {
    const PeerId to = others[rng.below(others.size())];
    if (left[to] != 0) {
      --left[to];
      --unsent;
      size_t bytes = rng.chance(1, 6) ? rng.below(20'000) : rng.below(300);
      bench.send(to, std::vector<std::byte>(bytes, std::byte(uint8_t(left[to]))));
    }
    if (rng.chance(1, 5))
      bench.path->change_channel(bench.path->lane(others[rng.below(others.size())]), kKinds[rng.below(4)]);
    if (rng.chance(1, 3)) bench.strand.charge_ns(rng.below(30'000));
    if (rng.chance(1, 2)) bench.engine.poll_all();
    totals.most_ring_bytes = std::max(totals.most_ring_bytes, bench.path->switches().ring_bytes());
  }
  for (PeerId peer : others) bench.wait_messages(peer, messages);
  bench.finish();
  totals.switches += bench.path->switches().switches();
  totals.empty_polls += bench.path->counters().rdma_empty_polls;
  EXPECT_TRUE(bench.sink.lost.empty());
}

// Both directions, any moment, any kind, with messages of several frames in flight: the mailbox checks the order. The
// adapter refuses queue pairs in some worlds, so that connected channels are refused by either side.
TEST(RdmaPathContract, ChannelsChangeWithoutLosingOrReorderingAMessage) {
  SwitchTotals totals;
  for_seeds(120, [&](uint64_t seed) {
    Rng rng(seed * 977);
    WorldOptions options = options_of(seed);
    options.ranks = rng.chance(1, 2) ? 8 : uint32_t(2 + rng.below(3));
    options.tunables.rdma_channels = rng.chance(2, 3) ? "dc" : "rc";
    options.tunables.rdma_ring_entries = int64_t(2 + rng.below(15));
    options.tunables.rdma_window = int64_t(2 + rng.below(30));
    options.tunables.rdma_receives = int64_t(16 + rng.below(200));
    options.tunables.rdma_dc_initiators = int64_t(1 + rng.below(4));
    options.tunables.rdma_rc_pool = int64_t(rng.below(8));
    options.adapter.dc_responders = uint32_t(1 + rng.below(8));
    options.adapter.polled_wakes = rng.chance(2, 3);
    if (rng.chance(1, 4)) options.adapter.max_queue_pairs = uint32_t(8 + options.ranks);
    options.adapter_faults.storm_in_1024 = uint32_t(rng.below(2) * rng.below(30));
    options.adapter_faults.storm_ns = 100'000;
    Report report = Machine(options).run([&](Machine::Rank& rank) {
      Bench bench(rank);
      Rng own(seed * 131 + rank.index());
      switching_program(bench, own, rank.machine.options().ranks, 40, totals);
    });
    ASSERT_TRUE(report.ok()) << report.failure;
  });
  if (!std::getenv("TERN_SIM_SEED") && kSeedDivisor == 1) {
    EXPECT_GT(totals.switches, 5000u);
    EXPECT_GT(totals.empty_polls, 0u);
    EXPECT_GT(totals.most_ring_bytes, 0u);
  }
}

// A rank that dies takes nobody else's messages with it, though they share DC initiators with those for it.
TEST(RdmaPathContract, ADeadPeerLeavesTheOthersOfItsInitiatorAlone) {
  for_seeds(20, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options = options_of(seed);
    options.adapter_faults = {};
    options.ranks = 4;
    options.tunables.rdma_channels = rng.chance(1, 2) ? "dc" : "dc-rdma";
    options.tunables.rdma_dc_initiators = 1;
    options.tunables.rdma_timeout_ms = 1;
    options.tunables.rdma_keepalive_ms = 2;
    options.faults.losses.push_back({3, 2'000'000 + rng.below(1'000'000), 1});
    Report report = Machine(options).run([&](Machine::Rank& rank) {
      Bench bench(rank);
      const PeerId me = rank.index();
      for (int i = 0; i < 400; ++i) {
        for (PeerId peer = 0; peer < 4; ++peer) {
          if (peer != me && (peer != 3 || bench.sink.lost.empty())) bench.send(peer, std::vector<std::byte>(100));
        }
        bench.strand.charge_ns(20'000);
        bench.engine.poll_all();
      }
      for (PeerId peer = 0; peer < 3; ++peer) {
        if (peer != me) bench.wait_messages(peer, 400);
      }
      bench.engine.wait_until([&] { return !bench.sink.lost.empty(); });
      EXPECT_EQ(bench.sink.lost, std::vector<PeerId>{3});
      bench.engine.wait_until([&] { return !bench.path->has_unsent(); });
      EXPECT_FALSE(bench.launcher->fence());
    });
    ASSERT_TRUE(report.ok()) << report.failure;
  });
}

// The published ping-pong of paper 000 (ICS 2009, 5.1) with the sender-initiated protocol by RDMA write, done by hand:
//   rts -> ; <- cts ; data (put), fin ->     67 us a round trip at 16 KB
TEST(RdmaPathContract, DracosRendezvousPingPongTakesThePublishedTime) {
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
        RemoteKey key = bench.path->expose(buffer.data(), kBytes, {.read = true, .write = true});
        bench.send(peer, bytes_of({reinterpret_cast<uint64_t>(buffer.data()), key}));
        bench.wait_messages(peer, ++seen);
        bench.path->conceal(key);
      }
    }
    if (me == 0) round_trip_ns = (bench.strand.now_ns() - begin) / kRounds;
    bench.finish();
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  EXPECT_NEAR(double(round_trip_ns), 67'000.0, 0.15 * 67'000.0);
}

}  // namespace
}  // namespace tern::sim
