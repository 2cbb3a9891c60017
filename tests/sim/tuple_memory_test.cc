// Tuple queues need bounded memory: with very many tags, and with very many peers.
//
//   TERN_TUPLE_TAGS=1000000   so many tags (default 20000)
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>

#include "p2p/impl.h"
#include "p2p/tuples/tuples.h"
#include "tests/sim/tuple_side.h"

namespace tern::sim {
namespace {

// Of the whole world, simulator included; large blocks, which the allocator maps by themselves, are not in it. Which
// ones are large must not depend on what was freed before.
constexpr int kLargeBytes = 128 << 10;
void fix_what_is_large() { mallopt(M_MMAP_THRESHOLD, kLargeBytes); }
size_t heap_bytes() { return mallinfo2().uordblks; }

Tuples& tuples_of(Process& process) { return *static_cast<PointToPoint::Impl&>(process.p2p().sink()).tuples; }

TEST(TupleMemory, VeryManyTags) {
  fix_what_is_large();
  const char* wanted = std::getenv("TERN_TUPLE_TAGS");
  const int tags = wanted ? std::atoi(wanted) : 20'000;
  constexpr int kRounds = 4, kWarm = 8'000;
  WorldOptions options = tuple_world(8192);
  options.limits.events = 20'000'000'000;
  size_t warm_bytes = 0, end_bytes = 0;
  Report report = World(options).run([&](Process& process) {
    Side side(process);
    uint8_t byte = 0;
    for (int i = 0; i < tags * kRounds; ++i) {
      const int tag = i / kRounds;
      if (i == kWarm * kRounds && side.me == 1) warm_bytes = heap_bytes();
      if (side.me == 0) side.send(&byte, 1, tag);
      else side.receive(&byte, 1, tag);
    }
    if (side.me == 1) end_bytes = heap_bytes();
    side.open(tags);
    const auto most = uint32_t(process.tunables().tuple_queues);
    EXPECT_LE(tuples_of(process).receiver.queues(), most);
    EXPECT_LE(tuples_of(process).sender.lines(), most);
    if (side.me == 0) {
      EXPECT_GT(process.progress().counters().tuple_stops_unused, 0u);
    }
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  EXPECT_LT(end_bytes, warm_bytes + 1'000'000);
  std::printf("%d tags: %zu KiB in use, %zu KiB after %d tags\n", tags, end_bytes / 1024, warm_bytes / 1024, kWarm);
}

// Everybody sends to rank 0 until it has its queue, or is refused one.
size_t of_many_peers(uint32_t peers, const char* mode, size_t& queues) {
  WorldOptions options = tuple_world();
  options.tunables.rendezvous = mode;
  options.ranks = peers + 1;
  options.ranks_per_node = 64;
  options.limits.events = 2'000'000'000;
  size_t bytes = 0;
  Report report = World(options).run([&](Process& process) {
    Side side(process);
    uint8_t byte = 0;
    for (int i = 0; i < 4; ++i) {
      if (side.me != 0) {
        SendArguments a = side.to(&byte, 1, 1);
        a.peer = 0;
        EXPECT_FALSE(side.p2p.send(a));
        continue;
      }
      for (uint32_t peer = 1; peer <= peers; ++peer) {
        ReceiveArguments a = side.from(&byte, 1, 1);
        a.peer = peer;
        a.source = int(peer);
        Status status;
        EXPECT_FALSE(side.p2p.receive(a, status));
      }
    }
    if (side.me != 0) return;
    bytes = heap_bytes();
    if (process.tunables().rendezvous == "tupleq") queues = tuples_of(process).receiver.queues();
  });
  EXPECT_TRUE(report.ok()) << report.failure;
  return bytes;
}

TEST(TupleMemory, AThousandPeers) {
  fix_what_is_large();
  size_t queues = 0;
  const size_t with = of_many_peers(1024, "tupleq", queues), without = of_many_peers(1024, "rget", queues);
  const size_t a_peer = (with > without ? with - without : 0) / 1024;
  std::printf("1024 peers: %zu queues, %zu bytes more for each pair of ranks than without\n", queues, a_peer);
  EXPECT_EQ(queues, 256u);  // TERN_TUPLE_QUEUES
  EXPECT_LT(a_peer, 20'000u);
}

}  // namespace
}  // namespace tern::sim
