// Message engines over a network (p2p/engines.h), below the C API. Their messages leave in time, also where no call
// visits the engine.
#include "p2p/engines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "datatype/kind.h"
#include "datatype/predefined.h"
#include "sim/world.h"
#include "tests/sim/seeds.h"

namespace tern::sim {
namespace {

constexpr uint64_t kContext = uint64_t{1} << 2, kAnswers = uint64_t{2} << 2;

/// The first engine of this rank, closed, as one of a communicator of all ranks.
Engine& begin_engine(Process& process, Counters* counters) {
  Engines& engines = *process.make_engines(counters);
  EXPECT_EQ(engines.over_network(), 1u);
  Engine& engine = engines[0];
  engine.begin(process.world_size(), true);
  return engine;
}

WorldOptions two_ranks_over_tcp(uint64_t seed) {
  WorldOptions options;
  options.seed = seed;
  options.tcp = true;
  options.ranks_per_node = 2;  // on one core: who waits sleeps soon
  options.cores_per_node = 1;
  options.tunables.engines = 1;
  options.limits.virtual_ns = 3600 * kSecond_ns;  // connections that close take minutes
  return options;
}

// The last messages of a burst may wait in the kernel for more, for 200 ms if nobody asks it to send them. The last
// burst is one that no call visits the engine after: its sender waits for an answer elsewhere.
TEST(Engines, TheEndOfABurstLeavesBeforeASleep) {
  for_seeds(20, [](uint64_t seed) {
    constexpr int kMessages = 16, kBursts = 40;
    uint64_t ended_ns = 0;
    const auto counters = std::make_unique<Counters[]>(2 * Engines::kMost);
    const Report report = World(two_ranks_over_tcp(seed)).run([&](Process& process) {
      PredefinedTypes types;
      const Datatype& byte = types.get(type_id::kByte);
      const int me = process.world_rank();
      const PeerId other = PeerId(1 - me);
      Engine& engine = begin_engine(process, &counters[size_t(me) * Engines::kMost]);
      char data[8] = {};
      Status status;
      for (int burst = 0; burst <= kBursts; ++burst) {
        const bool visits = burst != kBursts || me == 1;
        PointToPoint& answers = burst != kBursts ? engine.p2p : process.p2p();
        if (visits) engine.begin_visit(false);
        for (int i = 0; i < kMessages; ++i) {
          if (me == 0) EXPECT_FALSE(engine.p2p.send({data, 8, &byte, other, me, i, kContext}));
          else EXPECT_FALSE(engine.p2p.receive({data, 8, &byte, other, int(other), i, kContext}, status));
        }
        if (me == 0) EXPECT_FALSE(answers.receive({data, 8, &byte, other, int(other), 0, kAnswers}, status));
        else EXPECT_FALSE(answers.send({data, 8, &byte, other, me, 0, kAnswers}));
        if (visits) engine.end_visit();
      }
      ended_ns = std::max(ended_ns, process.clock().now_ns());
    });
    EXPECT_TRUE(report.ok()) << report.failure;
    EXPECT_LT(ended_ns, 150 * kMillisecond_ns);
  });
}

}  // namespace
}  // namespace tern::sim
