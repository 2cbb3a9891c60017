// The random point-to-point programs (p2p_program.h) by tuple queues over simulated RDMA adapters: few tuples with many
// messages each, so that queues are made, used, stopped and made again; wildcards, probes, cancels, short receives and
// noncontiguous data among them; receiver-not-ready storms, connections that fail, slow receivers, few queues and few
// ways; a second path that goes on when the adapter's is lost. In a part of them the mode is another and only some
// communicators ask for queues; and they assert what is true of them (or not: exact lengths).
#include <gtest/gtest.h>

#include <algorithm>

#include "p2p/impl.h"
#include "tests/sim/p2p_program.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

WorldOptions random_world(Rng& rng, uint64_t seed, bool faults) {
  WorldOptions options;
  options.rdma = true;
  options.seed = seed;
  options.ranks = uint32_t(2 + rng.below(3));
  options.ranks_per_node = uint32_t(1 + rng.below(3));
  Tunables& tunables = options.tunables;
  tunables.rendezvous = "tupleq";
  tunables.rdma_keepalive_ms = 0;
  tunables.rdma_greeting_ms = 1;
  tunables.rdma_eager_bytes = int64_t(256 + rng.below(uint64_t{1} << (4 + rng.below(10))));
  tunables.rdma_receives = int64_t(16 + rng.below(200));
  tunables.rdma_sends = int64_t(8 + rng.below(100));
  tunables.rdma_window = int64_t(2 + rng.below(40));
  tunables.rdma_rnr_wait_us = int64_t(10) << rng.below(6);
  tunables.unexpected_credit_bytes = int64_t(4096 + rng.below(uint64_t{1} << (10 + rng.below(8))));
  tunables.tuple_queues = rng.chance(1, 3) ? int64_t(1 + rng.below(4)) : 256;
  tunables.tuple_ways = int64_t(1 + rng.below(6));
  tunables.tuple_bytes = rng.chance(1, 3) ? int64_t(rng.below(20'000)) : 1 << 20;
  tunables.tuple_copy_bytes = rng.chance(1, 2) ? 0 : int64_t(rng.below(10'000));
  tunables.tuple_wildcards = rng.chance(1, 3) ? int64_t(rng.below(6)) : 1'000'000;
  AdapterModel& adapter = options.adapter;
  adapter.segment_bytes = uint32_t(256 << rng.below(8));
  adapter.queue_pair_cache = uint32_t(1 + rng.below(8));
  adapter.max_inline_bytes = uint32_t(rng.below(3) * 100);
  adapter.max_queue_depth = uint32_t(64 + rng.below(300));
  adapter.max_message_bytes = uint32_t(20'000 + rng.below(100'000));
  adapter.ordered_writes = rng.chance(1, 2);
  adapter.queue_pair_ns = rng.below(100'000);
  options.limits.events = 200'000'000;  // seed 1025 with faults needs 50 million
  if (!faults) return options;
  options.faults = Faults::random(rng);
  options.adapter_faults.storm_in_1024 = uint32_t(rng.below(2) * rng.below(50));
  options.adapter_faults.storm_ns = 1'000'000;
  options.adapter_faults.datagram_loss_in_1024 = uint32_t(rng.below(2) * rng.below(600));
  options.adapter_faults.xrc_error_in_1024 = uint32_t(rng.below(2) * rng.below(100));
  tunables.rdma_timeout_ms = int64_t(1 + rng.below(4));
  return options;
}

// The same on every rank.
std::vector<std::pair<uint64_t, MessageHints>> draw_hints(Rng& rng, bool everywhere) {
  std::vector<std::pair<uint64_t, MessageHints>> hints;
  for (int use = 0; use <= int(Use::mixed); ++use) {
    MessageHints its;
    its.tuple_queues = !everywhere && rng.chance(2, 3);
    its.no_any_source = its.no_any_tag = Use(use) == Use::exact && rng.chance(1, 2);
    its.exact_length = rng.chance(1, 6);
    hints.emplace_back(context_of(Use(use)), its);
  }
  return hints;
}

// Between few pairs, with few tags, mostly received by name.
Plan tuple_plan(Rng& rng, uint32_t ranks, size_t threshold) {
  Plan plan;
  plan.ranks = ranks;
  const size_t count = 20 + rng.below(150);
  const int tags = int(1 + rng.below(3));
  const uint64_t exact_in_8 = 2 + rng.below(7);
  const size_t longest = size_t{1} << (4 + rng.below(13));
  for (size_t i = 0; i < count; ++i) {
    PlannedMessage m;
    m.from = uint32_t(rng.below(ranks));
    m.to = rng.chance(1, 12) ? m.from : rng.chance(1, 3) ? uint32_t(rng.below(ranks)) : (m.from + 1) % ranks;
    m.use = rng.chance(exact_in_8, 8) ? Use::exact : rng.chance(1, 2) ? Use::mixed : Use(1 + rng.below(4));
    m.tag = int(rng.below(uint64_t(tags)));
    m.bytes = rng.chance(1, 8) ? threshold + rng.below(3) : rng.below(longest);
    m.synchronous = rng.chance(1, 8);
    m.truncated = m.use == Use::exact && m.bytes != 0 && rng.chance(1, 10);
    const size_t burst = rng.chance(1, 6) ? 1 + rng.below(30) : 1;
    for (size_t b = 0; b < burst; ++b) plan.messages.push_back(m);
  }
  return plan;
}

Counters total;  // over all programs

void add(const Counters& counters) {
  const auto* from = reinterpret_cast<const uint64_t*>(&counters);
  auto* to = reinterpret_cast<uint64_t*>(&total);
  for (const CounterRow& row : counter_rows()) {
    for (uint32_t i = 0; i < row.elements; ++i) to[row.offset / 8 + i] += from[row.offset / 8 + i];
  }
}

/// A second path, and the adapter's lane is lost again and again, at any moment.
void draw_cuts(Rng& rng, WorldOptions& options) {
  options.udp = true;
  options.tunables.udp_eager_bytes = int64_t(rng.below(uint64_t{1} << (6 + rng.below(11))));
  options.tunables.path_failback_ms = 1;
  options.faults.cut_in_65536 = uint32_t(1) << rng.below(12);
  options.limits.virtual_ns = 3'600'000'000'000;
}

Report run_program(uint64_t seed, bool faults, bool cuts = false) {
  Rng rng(seed * 1'000'003 + faults + 1234);
  WorldOptions options = random_world(rng, seed, faults);
  if (cuts) draw_cuts(rng, options);
  // The longest message of a queue, as RdmaTuples states it. Where an adapter takes less than TERN_TUPLE_BYTES,
  // messages of that length would only be many: in fragments of 256 bytes, with storms, they take 10^8 steps (seed 43
  // with faults).
  const size_t longest = std::min(size_t(options.tunables.tuple_bytes), size_t(options.adapter.max_message_bytes));
  Plan plan = tuple_plan(rng, options.ranks, longest / 64 * 64);
  const bool everywhere = !rng.chance(1, 4);
  if (!everywhere) options.tunables.rendezvous = "customised";
  const auto hints = draw_hints(rng, everywhere);
  return run_plan(
      options, plan, [](Process& process) { add(process.progress().counters()); },
      [&](Process& process) {
        for (const auto& [context, its] : hints) process.p2p().set_hints(context, its);
      });
}

TEST(TupleQueues, RandomProgramsOnSoundAdapters) {
  for_seeds(10, [](uint64_t seed) { run_program(seed, false); });
}

// Seed 43: many long messages in small fragments; seed 86: a queue began while a message for the lane was being copied.
TEST(TupleQueues, RandomProgramsWithFaults) {
  for_seeds(90, [](uint64_t seed) { run_program(seed, true); });
}

TEST(TupleQueues, RandomProgramsWhileTheAdapterIsCut) {
  for_seeds(60, [](uint64_t seed) { run_program(seed, false, true); });
}

TEST(TupleQueues, RandomProgramsWhileTheAdapterIsCutAndEverythingElseGoesWrong) {
  for_seeds(60, [](uint64_t seed) { run_program(seed, true, true); });
}

// The programs above are of use only if they meet every special case.
TEST(TupleQueues, RandomProgramsMeetEverySpecialCase) {
  if (!all_seeds()) GTEST_SKIP() << "not all seeds were run";
  uint64_t sent = 0;
  for (uint64_t messages : total.sent_tuple) sent += messages;
  EXPECT_GT(sent, 500u);
  EXPECT_GT(total.tuple_asked, 50u);
  EXPECT_GT(total.tuple_refused, 5u);
  EXPECT_GT(total.tuple_copies, 50u);
  EXPECT_GT(total.tuple_repairs, 10u);
  EXPECT_GT(total.tuple_stops_wildcard, 5u);
  EXPECT_GT(total.tuple_stops_cancel, 1u);
  EXPECT_GT(total.tuple_stops_long, 2u);
  EXPECT_GT(total.tuple_stops_busy, 1u);
  EXPECT_GT(total.tuple_stops_lost, 20u);
  EXPECT_GT(total.tuple_fetched, 20u);
}

// Over a path without queues, shared memory for example, the mode is the default's: every step is the same, so it can
// be neither slower nor faster.
Report run_without_queues(uint64_t seed, const char* mode) {
  Rng rng(seed * 1'000'003 + 77);
  WorldOptions options = random_world(rng, seed, rng.chance(1, 2));
  options.rdma = false;
  options.tunables.rendezvous = mode;
  Plan plan = tuple_plan(rng, options.ranks, 20'000);
  const auto hints = draw_hints(rng, false);
  std::vector<std::vector<Receipt>> receipts(options.ranks);
  Report report = World(options).run([&](Process& process) {
    for (const auto& [context, its] : hints) process.p2p().set_hints(context, its);
    Actor actor(process, plan);
    actor.run();
    receipts[size_t(process.world_rank())] = std::move(actor.receipts());
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  if (report.ok()) check_receipts(plan, receipts);
  return report;
}

TEST(TupleQueues, WithoutQueuesEveryStepIsTheDefaults) {
  for_seeds(30, [](uint64_t seed) {
    const Report queues = run_without_queues(seed, "tupleq"), otherwise = run_without_queues(seed, "customised");
    EXPECT_EQ(queues.trace_hash, otherwise.trace_hash);
    EXPECT_EQ(queues.virtual_ns, otherwise.virtual_ns);
    EXPECT_NE(queues.trace_hash, run_without_queues(seed, "rput").trace_hash) << "the mode must matter at all";
  });
}

TEST(TupleQueues, TheSameSeedGivesTheSameRun) {
  for_seeds(3, [](uint64_t seed) {
    Report first = run_program(seed, true), second = run_program(seed, true);
    EXPECT_EQ(first.trace_hash, second.trace_hash);
    EXPECT_EQ(first.virtual_ns, second.virtual_ns);
  });
}

}  // namespace
}  // namespace tern::sim
