// Collectives through the memory of a node, in real processes (simulated ranks: coll_random_test.cc): the model's
// results whatever is mixed with them, and the end of a member is noticed.
#include <gtest/gtest.h>
#include <signal.h>

#include "coll/algorithms.h"
#include "tests/sim/coll_model.h"
#include "tests/sim/seeds.h"
#include "tests/unit/shm_helpers.h"

namespace tern::sim {
namespace {

/// One rank in a process of its own, with point-to-point and communicators over shared memory.
struct NodeRank {
  NodeRank(int rank_, int ranks_, std::unique_ptr<ShmNode> node, const Tunables& values = {})
      : rank(rank_),
        ranks(ranks_),
        tunables(values),
        engine(clock, driving, port, WaitPolicy::Setup::of(tunables, true)),
        p2p(engine, tunables),
        path(std::move(node), p2p.sink(), tunables),
        memory(path.node()) {
    engine.add(path);
    p2p.add_path(path);
    environment.node_memory = &memory;
  }
  /// Ranks first .. first + size - 1.
  Ref<Communicator> communicator(uint64_t context, int first, int size) {
    return Ref<Communicator>::adopt(
        new Communicator(environment, context << 2, Group::strided(PeerId(rank), PeerId(first), 1, size), {}));
  }
  int rank, ranks;
  Tunables tunables;
  RealClock clock;
  Driving driving;
  KernelWait port;
  ProgressEngine engine;
  PointToPoint p2p;
  RankEnvironment environment{p2p};
  ShmPath path;
  NodeMemory memory;
};

constexpr Operation kOnNode[] = {Operation::barrier,
                                 Operation::bcast,
                                 Operation::gather,
                                 Operation::scatter,
                                 Operation::allgather,
                                 Operation::allgatherv,
                                 Operation::alltoall,
                                 Operation::reduce,
                                 Operation::allreduce,
                                 Operation::reduce_scatter,
                                 Operation::scan,
                                 Operation::exscan,
                                 Operation::reduce_scatter_block};

/// A drawn operation, small enough for node memory most of the time.
Plan drawn(Rng& rng, int ranks) {
  Plan plan(rng.next(), kOnNode[rng.below(std::size(kOnNode))], ranks);
  if (rng.chance(3, 4)) plan.count = Count(rng.below(2) == 0 ? rng.below(8) : rng.below(300));
  return plan;
}

void run(Communicator& communicator, const Plan& plan, int rank, ModelTypes& types) {
  Participant part(plan, rank, types);
  Request* none = nullptr;
  Error error = collective(communicator, plan.operation, part.operands(), Mode::blocking, none);
  ASSERT_FALSE(error) << error.text();
  ASSERT_EQ(part.check(), "") << name_of(plan.operation) << " of " << plan.count << " units, root " << plan.root
                              << (plan.in_place ? ", in place" : "") << ", type " << plan.reduction_type;
}

// Two communicators, of all ranks and of some; blocking collectives while nonblocking ones are under way; ranks that
// come late.
TEST(NodeCollectives, GiveTheModelsResult) {
  for_seeds(4, [](uint64_t seed) {
    constexpr int kRanks[] = {2, 3, 5, 8};
    const int ranks = kRanks[seed % 4];
    test::run_processes(ranks, 65536, [&](int rank, auto node, test::Common& common) {
      alarm(60);  // the others of one that has failed
      Tunables tunables;
      tunables.yield_rounds = seed % 2 == 0 ? 2 : 0;
      NodeRank me(rank, ranks, std::move(node), tunables);
      ModelTypes types;
      Rng rng(seed), mine(seed * 100 + uint64_t(rank));
      {
        const int some = 2 + int(rng.below(uint64_t(ranks) - 1));
        Ref<Communicator> all = me.communicator(7, 0, ranks), first;
        if (rank < some) first = me.communicator(8, 0, some);
        for (int round = 0; round < 40 && !testing::Test::HasFailure(); ++round) {
          Plan pending = drawn(rng, ranks);
          Participant part(pending, rank, types);
          Request* request = nullptr;
          EXPECT_FALSE(collective(*all, pending.operation, part.operands(), Mode::nonblocking, request));
          for (int i = 0; i < 8; ++i) {
            const bool everybody = rng.chance(1, 2);
            Plan plan = drawn(rng, everybody ? ranks : some);
            if (mine.chance(1, 30)) usleep(useconds_t(mine.below(300)));
            if (everybody || rank < some) run(everybody ? *all : *first, plan, rank, types);
          }
          me.p2p.wait(*request);
          EXPECT_FALSE(request->error);
          request->release();
          EXPECT_EQ(part.check(), "") << "nonblocking " << name_of(pending.operation);
        }
        EXPECT_TRUE(CollectiveEnvironment::of(*all).node_team);
        EXPECT_TRUE(rank >= some || CollectiveEnvironment::of(*first).node_team);
      }
      test::common_fence(common, ranks);
      return !testing::Test::HasFailure();
    });
  });
}

/// Everyone but the last of three ranks runs `operation` until it fails; the last dies after a few.
void die_in(Operation operation, int root) {
  constexpr int kRanks = 3, kLast = kRanks - 1;
  test::run_processes(kRanks, 65536,
                      [&](int rank, auto node, test::Common&) {
                        alarm(20);  // a hang is a failure
                        NodeRank me(rank, kRanks, std::move(node));
                        ModelTypes types;
                        Ref<Communicator> all = me.communicator(7, 0, kRanks);
                        Error error;
                        for (int i = 0; i < 1000 && !error; ++i) {
                          if (rank == kLast && i == 10) raise(SIGKILL);
                          Plan plan(3, operation, kRanks);
                          plan.count = 2;
                          plan.root = root;
                          plan.reduction_type = 0;
                          Participant part(plan, rank, types);
                          Request* none = nullptr;
                          error = collective(*all, operation, part.operands(), Mode::blocking, none);
                        }
                        EXPECT_EQ(error.error_class(), int(ErrorClass::proc_aborted)) << error.text();
                        EXPECT_NE(error.text().find("rank 2"), std::string_view::npos) << error.text();
                        return !testing::Test::HasFailure();
                      },
                      {kLast});
}

TEST(NodeCollectives, ADeadMemberFailsWhoWaitsForIt) {
  die_in(Operation::barrier, 0);
  die_in(Operation::allreduce, 0);
  die_in(Operation::alltoall, 0);
}

TEST(NodeCollectives, ADeadMemberFailsWhoWaitsForRoomOrForItsData) {
  die_in(Operation::bcast, 0);  // rank 0 waits for room, rank 1 for rank 0
  die_in(Operation::gather, 1);
}

}  // namespace
}  // namespace tern::sim
