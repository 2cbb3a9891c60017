// The random point-to-point programs (p2p_program.h) over the TCP path, whose connections meet what networks and
// kernels do to them: lost segments, resets, interfaces that go down and come back, full queues, strangers, sends and
// receives that move less than they could.
#include <gtest/gtest.h>

#include <iterator>

#include "sim/stream_hosts.h"
#include "tests/sim/p2p_program.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

enum class Weather { fair, faults };

/// What all seeds together have met.
struct Totals {
  uint64_t resumed = 0, striped = 0, unsound = 0;
  StreamHosts::Totals faults;
  void record() const {
    for (const auto& [name, value] : {std::pair{"resumed", resumed},
                                      {"striped", striped},
                                      {"unsound", unsound},
                                      {"dropped", faults.dropped},
                                      {"resets", faults.resets},
                                      {"outages", faults.outages},
                                      {"strangers", faults.strangers},
                                      {"queue_full", faults.queue_full}})
      testing::Test::RecordProperty(name, std::to_string(value));
  }
};

StreamFaults random_faults(Rng& rng, bool sealed) {
  auto sometimes = [&](uint32_t parts) { return rng.chance(1, 2) ? uint32_t(rng.below(parts)) : 0; };
  StreamFaults faults;
  faults.drop_in_1024 = rng.chance(1, 8) ? 200 : sometimes(30);
  faults.corrupt_in_65536 = sealed ? sometimes(1000) : 0;
  faults.reset_in_65536 = sometimes(2000);
  faults.outage_in_65536 = sometimes(300);
  faults.outage_ns = uint64_t{1} << (20 + rng.below(13));
  faults.stranger_in_65536 = sometimes(1000);
  faults.partial_in_1024 = sometimes(500);
  faults.exhausted_in_1024 = sometimes(200);
  return faults;
}

WorldOptions random_world(Rng& rng, uint64_t seed, Weather weather) {
  WorldOptions options;
  options.tcp = true;
  options.seed = seed;
  options.ranks = uint32_t(2 + rng.below(4));
  options.ranks_per_node = rng.chance(1, 4) ? 2 : 1;
  options.streams.networks = uint32_t(1 + rng.below(3));
  options.streams.segment_bytes = size_t(500 + rng.below(uint64_t{1} << (6 + rng.below(8))));
  options.streams.send_bytes = size_t(3000 + rng.below(uint64_t{1} << (8 + rng.below(11))));
  options.streams.receive_bytes = size_t(3000 + rng.below(uint64_t{1} << (8 + rng.below(11))));
  Tunables& tunables = options.tunables;
  tunables.encrypt = rng.chance(1, 4);
  tunables.tcp_crc = rng.chance(1, 4);
  tunables.tcp_lanes = int64_t(1 + rng.below(4));
  tunables.tcp_stripe_bytes = int64_t(20'000 + rng.below(200'000));
  tunables.tcp_eager_bytes = int64_t(rng.below(uint64_t{1} << (6 + rng.below(11))));
  tunables.unexpected_credit_bytes = int64_t(4096 + rng.below(uint64_t{1} << (10 + rng.below(8))));
  options.limits.events = 50'000'000;
  options.limits.virtual_ns = 3'600'000'000'000;
  if (weather == Weather::fair) return options;
  tunables.tcp_connect_timeout_s = 600;  // some worlds have no network that works for a minute: nobody is lost by that
  options.streams.backlog = size_t(1 + rng.below(8));
  options.faults = Faults::random(rng);
  options.stream_faults = random_faults(rng, tunables.encrypt != 0 || tunables.tcp_crc != 0);
  // With a fifth of the segments lost, windows of 3 KiB and resets, 64 messages took three hours (seed 128).
  if (options.stream_faults.drop_in_1024 >= 200) options.limits.virtual_ns *= 10;
  return options;
}

Report run_program(uint64_t seed, Weather weather, Totals& totals) {
  Rng rng(seed * 1'000'003 + uint64_t(weather) + 77);
  WorldOptions options = random_world(rng, seed, weather);
  Plan plan = Plan::random(rng, options.ranks,
                           {size_t(options.tunables.tcp_eager_bytes), size_t(options.tunables.tcp_stripe_bytes)});
  std::vector<std::vector<Receipt>> receipts(options.ranks);
  std::vector<Actor*> actors(options.ranks);
  World world(options);
  Report report = world.run([&](Process& process) {
    Actor actor(process, plan);
    actors[size_t(process.world_rank())] = &actor;
    actor.run();
    receipts[size_t(process.world_rank())] = std::move(actor.receipts());
    totals.resumed += process.counters().tcp_resumed;
    totals.striped += process.counters().tcp_striped;
    totals.unsound += process.counters().tcp_unsound;
    actors[size_t(process.world_rank())] = nullptr;
  });
  const StreamHosts::Totals& met = world.machine().streams().totals();
  totals.faults.dropped += met.dropped;
  totals.faults.resets += met.resets;
  totals.faults.outages += met.outages;
  totals.faults.strangers += met.strangers;
  totals.faults.queue_full += met.queue_full;
  std::string open;
  for (Actor* actor : actors) {
    if (actor && !report.ok()) open += actor->describe();  // its stack is kept
  }
  if (!report.ok()) open += world.machine().streams().describe();
  EXPECT_TRUE(report.ok()) << report.failure << "\n" << open;
  if (report.ok()) check_receipts(plan, receipts);
  return report;
}

TEST(TcpInTheWorld, RandomProgramsOnASoundNetwork) {
  Totals totals;
  for_seeds(50, [&](uint64_t seed) { run_program(seed, Weather::fair, totals); });
  totals.record();
}

TEST(TcpInTheWorld, RandomProgramsWithFaults) {
  Totals totals;
  for_seeds(100, [&](uint64_t seed) { run_program(seed, Weather::faults, totals); });
  totals.record();
  if (!all_seeds()) return;
  // The programs are of use only if they meet what they are for.
  for (const uint64_t met :
       {totals.resumed, totals.striped, totals.unsound, totals.faults.dropped, totals.faults.resets,
        totals.faults.outages, totals.faults.strangers, totals.faults.queue_full})
    EXPECT_GT(met, 0u);
}

TEST(TcpInTheWorld, TheSameSeedGivesTheSameRun) {
  for_seeds(10, [](uint64_t seed) {
    Totals totals;
    Report first = run_program(seed, Weather::faults, totals), second = run_program(seed, Weather::faults, totals);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
  });
}

}  // namespace
}  // namespace tern::sim
