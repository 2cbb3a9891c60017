// The random point-to-point programs (p2p_program.h) over the UDP path, both protocols, on a network that loses,
// doubles, delays, damages, replays and forges datagrams; and what becomes of a lost rank.
#include <gtest/gtest.h>

#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "tests/sim/lost_rank.h"
#include "tests/sim/p2p_program.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

DatagramFaults random_faults(Rng& rng) {
  auto sometimes = [&](uint32_t parts) { return rng.chance(1, 2) ? uint32_t(rng.below(parts)) : 0; };
  DatagramFaults faults;
  faults.drop_in_1024 = rng.chance(1, 8) ? 400 : sometimes(100);
  faults.duplicate_in_1024 = sometimes(200);
  faults.delay_in_1024 = sometimes(300);
  faults.delay_ns = uint64_t{1} << (10 + rng.below(14));
  faults.corrupt_in_1024 = sometimes(100);
  faults.replay_in_1024 = sometimes(200);
  faults.forge_in_1024 = sometimes(200);
  faults.refuse_in_1024 = sometimes(300);
  return faults;
}

WorldOptions random_world(Rng& rng, uint64_t seed, const char* protocol, bool faults) {
  WorldOptions options;
  options.udp = true;
  options.seed = seed;
  options.ranks = uint32_t(2 + rng.below(4));
  options.datagrams.datagram_bytes = size_t(1200 + rng.below(uint64_t{1} << (4 + rng.below(11))));
  options.datagrams.buffer_bytes = size_t(16'000 + rng.below(uint64_t{1} << (12 + rng.below(8))));
  Tunables& tunables = options.tunables;
  tunables.udp = protocol;
  tunables.encrypt = int64_t(rng.below(2));
  tunables.udp_paper_window = int64_t(1 + rng.below(16));
  tunables.udp_eager_bytes = int64_t(rng.below(uint64_t{1} << (6 + rng.below(11))));
  tunables.unexpected_credit_bytes = int64_t(4096 + rng.below(uint64_t{1} << (10 + rng.below(8))));
  options.limits.events = 50'000'000;
  // Where four of ten datagrams are lost and one fragment is on the way at a time, each waits for some timeouts.
  options.limits.virtual_ns = 3'600'000'000'000;
  if (!faults) return options;
  options.faults = Faults::random(rng);
  options.datagram_faults = random_faults(rng);
  return options;
}

Report run_program(uint64_t seed, const char* protocol, bool faults) {
  Rng rng(seed * 1'000'003 + faults + 99);
  WorldOptions options = random_world(rng, seed, protocol, faults);
  Plan plan = Plan::random(rng, options.ranks);
  std::vector<std::vector<Receipt>> receipts(options.ranks);
  Report report = World(options).run([&](Process& process) {
    Actor actor(process, plan);
    actor.run();
    receipts[size_t(process.world_rank())] = std::move(actor.receipts());
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  if (report.ok()) check_receipts(plan, receipts);
  return report;
}

TEST(UdpModern, RandomProgramsOnASoundNetwork) {
  for_seeds(80, [](uint64_t seed) { run_program(seed, "modern", false); });
}
TEST(UdpModern, RandomProgramsWithFaults) {
  for_seeds(600, [](uint64_t seed) { run_program(seed, "modern", true); });
}
TEST(UdpPaper, RandomProgramsOnASoundNetwork) {
  for_seeds(80, [](uint64_t seed) { run_program(seed, "paper", false); });
}
TEST(UdpPaper, RandomProgramsWithFaults) {
  for_seeds(600, [](uint64_t seed) { run_program(seed, "paper", true); });
}

TEST(UdpPath, TheSameSeedGivesTheSameRun) {
  for_seeds(10, [](uint64_t seed) {
    for (const char* protocol : {"modern", "paper"}) {
      Report first = run_program(seed, protocol, true), second = run_program(seed, protocol, true);
      EXPECT_EQ(first.trace_hash, second.trace_hash);
      EXPECT_EQ(first.virtual_ns, second.virtual_ns);
    }
  });
}

constexpr uint64_t kContext = uint64_t{1} << 2;

// Both others learn of it within a bounded time.
void lose_a_rank(uint64_t seed, const char* protocol, bool dead_host) {
  Rng rng(seed);
  WorldOptions options;
  options.udp = true;
  options.seed = seed;
  options.ranks = 3;
  options.tunables.udp = protocol;
  options.tunables.udp_timeout_s = 5;
  options.datagram_faults = random_faults(rng);
  options.datagram_faults.dead_hosts = dead_host;
  const uint64_t death_ns = 500'000'000 + rng.below(300'000'000);
  options.faults.losses.push_back({1, death_ns, 1});
  Report report = World(options).run([&](Process& process) {
    const uint64_t took_ms = (live_through_a_death(process, "UDP") - death_ns) / 1'000'000;
    EXPECT_LT(took_ms, dead_host ? 9000u : 4500u) << "rank " << process.world_rank();
  });
  EXPECT_TRUE(report.ok()) << report.failure;
}

TEST(UdpPath, ALostProcessIsReportedToThoseWhoSendAndThoseWhoListen) {
  for_seeds(80, [](uint64_t seed) { lose_a_rank(seed, seed % 2 ? "modern" : "paper", false); });
}
TEST(UdpPath, ALostHostIsReportedWithinItsTimeout) {
  for_seeds(80, [](uint64_t seed) { lose_a_rank(seed, seed % 2 ? "modern" : "paper", true); });
}

// Datagrams as long as both hosts allow never arrive, for a router between them has smaller packets and says nothing:
// what is repeated without an answer goes in smaller ones, and so does all that follows. Also where other datagrams are
// lost by chance.
TEST(UdpModern, DatagramsThatAreTooLongForTheWayAreSplit) {
  for_seeds(20, [](uint64_t seed) {
    Rng rng(seed);
    WorldOptions options;
    options.udp = true;
    options.seed = seed;
    options.datagrams.datagram_bytes = size_t(2000 + rng.below(60'000));
    options.datagrams.buffer_bytes = 512 * 1024;
    options.datagram_faults.largest_bytes = size_t(1200 + rng.below(options.datagrams.datagram_bytes - 1200));
    if (seed % 2) options.datagram_faults.drop_in_1024 = 50;
    constexpr int kMessages = 20;
    uint64_t took_ns = 0;
    Report report = World(options).run([&](Process& process) {
      PredefinedTypes types;
      const Datatype& byte = types.get(type_id::kByte);
      const int me = process.world_rank();
      std::vector<std::byte> out(500'000), in(out.size());
      Status status;
      for (int i = 0; i < kMessages; ++i) {
        if (i % 2 == me) {
          for (size_t k = 0; k < out.size(); ++k) out[k] = std::byte(k * 7 + size_t(i));
          EXPECT_FALSE(process.p2p().send(
              {out.data(), Count(out.size()), &byte, PeerId(1 - me), me, i, kContext, SendMode::standard}));
        } else {
          EXPECT_FALSE(
              process.p2p().receive({in.data(), Count(in.size()), &byte, PeerId(1 - me), 1 - me, i, kContext}, status));
          size_t wrong = 0;
          for (size_t k = 0; k < in.size(); ++k) wrong += in[k] != std::byte(k * 7 + size_t(i));
          EXPECT_EQ(wrong, 0u) << "message " << i;
        }
      }
      took_ns = std::max(took_ns, process.clock().now_ns());
      process.p2p().progress().wait_until([&] { return process.p2p().quiet(); });
    });
    EXPECT_TRUE(report.ok()) << report.failure;
    // Were the length not learned, each of some hundred datagrams would wait for its own repetitions.
    EXPECT_LT(took_ns / 1'000'000, options.datagram_faults.drop_in_1024 ? 1500u : 300u);
  });
}

// A rank that computes for longer than the timeout is not lost: its host says that it lives.
TEST(UdpPath, ARankThatComputesIsNotLost) {
  for_seeds(6, [](uint64_t seed) {
    WorldOptions options;
    options.udp = true;
    options.seed = seed;
    options.tunables.udp = seed % 2 ? "modern" : "paper";
    options.tunables.udp_timeout_s = 2;
    Report report = World(options).run([&](Process& process) {
      PredefinedTypes types;
      const Datatype& byte = types.get(type_id::kByte);
      int me = process.world_rank();
      std::vector<std::byte> data(300'000, std::byte(7));
      Status status;
      if (me == 0) {
        EXPECT_FALSE(
            process.p2p().send({data.data(), Count(data.size()), &byte, 1, me, 1, kContext, SendMode::synchronous}));
      } else {
        process.clock().charge_ns(20'000'000'000);
        std::vector<std::byte> in(data.size());
        EXPECT_FALSE(process.p2p().receive({in.data(), Count(in.size()), &byte, 0, 0, 1, kContext}, status));
        EXPECT_EQ(in, data);
      }
    });
    EXPECT_TRUE(report.ok()) << report.failure;
  });
}

}  // namespace
}  // namespace tern::sim
