// The random point-to-point programs (p2p_program.h) over the rdma path on simulated adapters: every protocol for large
// messages, few slots, little credit, small queue-pair caches, receiver-not-ready storms, lost greetings and everything
// else that goes wrong; and what becomes of a lost rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "p2p/protocols/protocol.h"
#include "tests/sim/lost_rank.h"
#include "tests/sim/p2p_program.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

WorldOptions random_world(Rng& rng, uint64_t seed, bool faults) {
  WorldOptions options;
  options.rdma = true;
  options.seed = seed;
  options.ranks = uint32_t(2 + rng.below(5));
  options.ranks_per_node = uint32_t(1 + rng.below(3));
  Tunables& tunables = options.tunables;
  tunables.rdma_keepalive_ms = 0;
  tunables.rdma_eager_bytes = int64_t(256 + rng.below(uint64_t{1} << (4 + rng.below(10))));
  tunables.rdma_hybrid_bytes = rng.chance(2, 3) ? tunables.rdma_eager_bytes + int64_t(rng.below(20'000)) : 0;
  constexpr const char* kModes[] = {"customised", "customised", "customised", "customised", "rput", "rget", "stream"};
  tunables.rendezvous = kModes[rng.below(std::size(kModes))];
  tunables.sender_rendezvous = rng.chance(1, 2) ? "read" : "write";
  tunables.hybrid_buffers = int64_t(rng.below(12));
  tunables.rdma_receives = int64_t(16 + rng.below(200));
  tunables.rdma_sends = int64_t(8 + rng.below(100));
  tunables.rdma_window = int64_t(2 + rng.below(40));
  tunables.unexpected_credit_bytes = int64_t(4096 + rng.below(uint64_t{1} << (10 + rng.below(8))));
  constexpr const char* kChannels[] = {"rc",      "rc",     "rc-rdma", "dc",      "dc-rdma", "auto",
                                       "auto-rc", "rotate", "ud",      "auto-ud", "xrc",     "auto-xrc"};
  tunables.rdma_channels = kChannels[rng.below(std::size(kChannels))];
  tunables.rdma_dc_initiators = int64_t(1 + rng.below(4));
  tunables.rdma_ring_entries = int64_t(2 + rng.below(16));
  tunables.rdma_rc_active = int64_t(rng.below(5));
  tunables.rdma_rc_pool = int64_t(rng.below(5));
  tunables.rdma_statistics_ms = 1;
  tunables.rdma_statistics = int64_t(16 + rng.below(50));
  AdapterModel& adapter = options.adapter;
  adapter.dc = tunables.rdma_channels.starts_with("dc") || rng.chance(3, 4);
  adapter.dc_responders = uint32_t(1 + rng.below(8));
  adapter.dc_idle_ns = 500 + rng.below(20'000);
  adapter.polled_wakes = rng.chance(1, 2);
  adapter.segment_bytes = uint32_t(256 << rng.below(8));
  adapter.queue_pair_cache = uint32_t(1 + rng.below(8));
  adapter.max_inline_bytes = uint32_t(rng.below(3) * 100);
  adapter.max_queue_depth = uint32_t(64 + rng.below(300));
  adapter.max_message_bytes = uint32_t(20'000 + rng.below(100'000));
  adapter.ordered_writes = rng.chance(1, 2);
  adapter.max_reads = uint32_t(1 + rng.below(8));
  options.limits.events = 50'000'000;
  tunables.rdma_ordered_writes = int64_t(rng.below(2));
  options.adapter_faults.reorders_writes = tunables.rdma_ordered_writes == 0 && rng.chance(1, 2);
  if (!faults) return options;
  options.faults = Faults::random(rng);
  options.adapter_faults.storm_in_1024 = uint32_t(rng.below(2) * rng.below(50));
  options.adapter_faults.storm_ns = 1'000'000;
  // Greetings may be lost often; messages by datagrams are not meant for that.
  const bool datagrams = !tunables.rdma_channels.starts_with("rc") && !tunables.rdma_channels.starts_with("dc");
  options.adapter_faults.datagram_loss_in_1024 = uint32_t(rng.below(2) * rng.below(datagrams ? 60 : 600));
  options.adapter_faults.datagram_double_in_1024 = options.adapter_faults.datagram_late_in_1024 =
      uint32_t(rng.below(60));
  options.adapter_faults.datagram_late_ns = 20'000;
  return options;
}

ProtocolCounters total_counters;  // over all programs

Report run_program(uint64_t seed, bool faults) {
  Rng rng(seed * 1'000'003 + faults + 77);
  WorldOptions options = random_world(rng, seed, faults);
  Plan plan = Plan::random(rng, options.ranks,
                           {size_t(options.tunables.rdma_eager_bytes), size_t(options.tunables.rdma_hybrid_bytes)});
  SCOPED_TRACE(options.tunables.rdma_channels);
  return run_plan(options, plan, [](Process& process) {
    total_counters += process.p2p().report().counters();
    EXPECT_EQ(process.p2p().report().open_announcements(), 0u);
  });
}

TEST(RdmaPath, RandomProgramsOnSoundAdapters) {
  for_seeds(80, [](uint64_t seed) { run_program(seed, false); });
}

TEST(RdmaPath, RandomProgramsWithFaults) {
  for_seeds(150, [](uint64_t seed) { run_program(seed, true); });
}

// The programs above are of use only if they meet every protocol and every special case of them.
TEST(RdmaPath, RandomProgramsUseEveryProtocol) {
  if (!all_seeds()) GTEST_SKIP() << "not all seeds were run";
  expect_every_protocol(total_counters);
}

TEST(RdmaPath, TheSameSeedGivesTheSameRun) {
  for_seeds(10, [](uint64_t seed) {
    Report first = run_program(seed, true), second = run_program(seed, true);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
  });
}

constexpr uint64_t kContext = uint64_t{1} << 2;

TEST(RdmaPath, ALostRankIsReportedToThoseWhoSendAndThoseWhoListen) {
  for_seeds(10, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options;
    options.rdma = true;
    options.seed = seed;
    options.ranks = 3;
    options.tunables.rdma_keepalive_ms = int64_t(1 + rng.below(20));
    options.faults.losses.push_back({1, 3'000'000 + rng.below(3'000'000), 1});
    Report report = World(options).run([](Process& process) { live_through_a_death(process, "RDMA"); });
    // The fence of the end is left by the lost rank, too (Machine::kill).
    EXPECT_TRUE(report.ok()) << report.failure;
  });
}

// How many of some large messages, whose receives are early, were complete before their data was there.
int torn_messages(uint64_t seed, bool trusted, const char* channels) {
  WorldOptions options;
  options.rdma = true;
  options.seed = seed;
  options.tunables.rdma_keepalive_ms = 0;
  options.tunables.rdma_ordered_writes = trusted;
  options.tunables.rdma_channels = channels;
  options.tunables.sender_rendezvous = seed % 2 ? "read" : "write";
  options.adapter.ordered_writes = true;
  options.adapter.relaxed_ns = 20'000;
  options.adapter_faults.reorders_writes = true;
  int torn = 0;
  Report report = World(options).run([&](Process& process) {
    PredefinedTypes types;
    const Datatype& byte = types.get(type_id::kByte);
    PointToPoint& p2p = process.p2p();
    const int me = process.world_rank();
    for (int i = 0; i < 4; ++i) {
      std::vector<std::byte> data(20'000, std::byte(me == 0 ? 1 : 2));
      if (me == 0) {
        Request* request = p2p.ireceive({data.data(), Count(data.size()), &byte, 1, 1, 0, kContext});
        while (!request->complete()) {  // a rank that sleeps would wake too late to see it
          process.clock().charge_ns(200);
          p2p.progress().poll();
        }
        request->release();
        torn += std::count(data.begin(), data.end(), std::byte(2)) != std::ptrdiff_t(data.size());
      } else {
        process.clock().charge_ns(100'000);
        const Error error = p2p.send({data.data(), Count(data.size()), &byte, 0, 1, 0, kContext, SendMode::standard});
        // Who trusts may also have given its memory back before the rest of the write came.
        EXPECT_TRUE(trusted || !error) << error.text();
        torn += bool(error);
      }
    }
    if (torn != 0) return;
    p2p.progress().wait_until([&] { return p2p.quiet(); });
  });
  EXPECT_TRUE(trusted || report.ok()) << report.failure;
  return torn;
}

// An adapter that claims to keep the order of a write's bytes, and something behind it (PCI Express with relaxed
// ordering) that does not: nothing is lost unless the user has vouched for the order.
TEST(RdmaPath, WritesOutOfOrderDoNotHarmTheDefault) {
  int trusted = 0;
  for_seeds(20, [&](uint64_t seed) {
    for (const char* channels : {"rc", "rc-rdma", "dc-rdma", "auto"}) {
      EXPECT_EQ(torn_messages(seed, false, channels), 0) << channels;
    }
    trusted += torn_messages(seed, true, "rc");
  });
  EXPECT_GT(trusted, 0) << "the fault reorders nothing";
}

// FIN elimination (Small and Yuan 2009, 4.1): nothing but the bytes comes, to a rank that has given its core away long
// ago.
TEST(RdmaPath, WhoSleepsWakesWhenItsBufferIsFilledWithoutAFin) {
  WorldOptions options;
  options.rdma = true;
  options.ranks = 2;
  options.tunables.rdma_keepalive_ms = 0;
  options.adapter.ordered_writes = true;
  options.tunables.rdma_ordered_writes = 1;
  constexpr uint64_t kLate_ns = 50'000'000;
  Report report = World(options).run([](Process& process) {
    PredefinedTypes types;
    const Datatype& byte = types.get(type_id::kByte);
    PointToPoint& p2p = process.p2p();
    const int me = process.world_rank();
    std::vector<std::byte> data(200'000, std::byte(me == 0 ? 1 : 2));
    Status status;
    // Connects the two.
    EXPECT_FALSE(p2p.send({nullptr, 0, &byte, PeerId(1 - me), me, 9, kContext, SendMode::standard}));
    EXPECT_FALSE(p2p.receive({nullptr, 0, &byte, PeerId(1 - me), 1 - me, 9, kContext}, status));
    if (me == 0) {
      EXPECT_FALSE(p2p.receive({data.data(), Count(data.size()), &byte, 1, 1, 0, kContext}, status));
      EXPECT_EQ(status.bytes, Count(data.size()));
      EXPECT_EQ(data.back(), std::byte(2));
      EXPECT_LT(process.clock().now_ns(), kLate_ns + 1'000'000);
    } else {
      process.clock().charge_ns(kLate_ns);
      EXPECT_FALSE(p2p.send({data.data(), Count(data.size()), &byte, 0, 1, 0, kContext, SendMode::standard}));
      EXPECT_EQ(p2p.report().counters().fins_saved, 1u);
      process.clock().charge_ns(kLate_ns);  // no word of it
    }
    p2p.progress().wait_until([&] { return p2p.quiet(); });
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

// A connection that breaks in the middle of traffic is an error, never a hang and never wrong data.
TEST(RdmaPath, ABrokenConnectionIsAnErrorNotAHang) {
  int broken = 0;
  for_seeds(30, [&](uint64_t seed) {
    WorldOptions options;
    options.rdma = true;
    options.seed = seed;
    options.tunables.rdma_keepalive_ms = 5;
    options.tunables.rdma_eager_bytes = 1024;
    options.adapter_faults.error_in_1024 = 10;
    int failures = 0;
    // Not through World: the closing meeting cannot be held over a broken connection.
    Report report = World(options).run_unstarted([&](Machine::Rank& rank) {
      auto process = World::make_process(rank, std::make_shared<Driving>());
      EXPECT_FALSE(process->start());
      PredefinedTypes types;
      const Datatype& byte = types.get(type_id::kByte);
      PointToPoint& p2p = process->p2p();
      int me = process->world_rank();
      PeerId peer = PeerId(1 - me);
      bool failed = false;
      for (int i = 0; i < 40 && !failed; ++i) {
        size_t n = size_t(i % 3 == 0 ? 20'000 : 500);
        std::vector<std::byte> out(n, std::byte(uint8_t(me * 100 + i))), in(n);
        Request* sending = p2p.isend({out.data(), Count(n), &byte, peer, me, i, kContext, SendMode::standard});
        Request* receiving = p2p.ireceive({in.data(), Count(n), &byte, peer, int(peer), i, kContext});
        p2p.wait(*sending);
        p2p.wait(*receiving);
        failed = bool(sending->error) || bool(receiving->error);
        if (!receiving->error) {
          EXPECT_EQ(in, std::vector<std::byte>(n, std::byte(uint8_t(int(peer) * 100 + i))));
        }
        sending->release();
        receiving->release();
      }
      failures += failed;
      p2p.progress().wait_until([&] { return p2p.quiet(); });
      EXPECT_FALSE(process->launcher().fence());
    });
    EXPECT_TRUE(report.ok()) << report.failure;
    broken += failures == 2;  // 1: what failed was a last word that nobody waits for
  });
  EXPECT_GT(broken, 0);
}

}  // namespace
}  // namespace tern::sim
