// Collectives through the memory of a node (coll/node_team.h): lines and bulk slots that members write in turn, and the
// wake-ups of those who wait for them. A member's wait is a real one, through its engine.
#include "coll/node_team.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "fabric/shm/shm_path.h"
#include "p2p/point_to_point.h"
#include "tests/explore/pieces.h"

namespace tern::explore {
namespace {

/// Asleep in the explorer.
struct ExploredWait final : WaitPort {
  explicit ExploredWait(std::unique_ptr<ShmPath>& its_path) : path(its_path) {}
  void sleep(uint64_t, uint64_t) override {
    wait_for([&] { return is_readable(path->node().doorbell()); });
  }
  std::unique_ptr<ShmPath>& path;
};

/// Who has polled empty sleeps at once.
WaitPolicy::Setup sleeps_at_once() {
  WaitPolicy::Setup setup;
  setup.oversubscribed = true;
  return setup;
}

/// A member of a team, with what it stands on.
struct Member {
  Member(int rank, int ranks, std::unique_ptr<ShmNode> node)
      : path(std::make_unique<ShmPath>(std::move(node), p2p.sink(), Tunables())), memory(path->node()) {
    engine.add(*path);
    p2p.add_path(*path);
    environment.node_memory = &memory;
    communicator =
        Ref<Communicator>::adopt(new Communicator(environment, 4, Group::strided(PeerId(rank), 0, 1, ranks), {}));
  }
  std::unique_ptr<ShmPath> path;
  ExploredWait port{path};
  RealClock clock;
  Driving driving;
  ProgressEngine engine{clock, driving, port, sleeps_at_once()};
  PointToPoint p2p{engine, Tunables()};
  RankEnvironment environment{p2p};
  NodeMemory memory;
  Ref<Communicator> communicator;
  std::unique_ptr<NodeTeam> team;
};

struct Team {
  explicit Team(int ranks) {
    std::vector<int> ids;
    for (int i = 0; i < ranks; ++i) ids.push_back(i);
    auto nodes = ShmNode::create_local(ids, 4096);
    for (int i = 0; i < ranks; ++i) members.push_back(std::make_unique<Member>(i, ranks, std::move(nodes[size_t(i)])));
    uint64_t offset = 0;
    EXPECT_TRUE(members[0]->memory.allocate(NodeTeam::bytes_for(ranks), offset, NodeTeam::zeroed_bytes_for(ranks)));
    std::vector<int> all;
    for (int i = 0; i < ranks; ++i) all.push_back(i);
    for (auto& member : members) member->team = std::make_unique<NodeTeam>(*member->communicator, all, offset, true);
  }
  NodeTeam& operator[](size_t i) { return *members[i]->team; }
  void share_with(Execution& execution) {
    ShmNode& node = members[0]->path->node();
    execution.share(node.base(), node.segment_bytes());
  }
  std::vector<std::unique_ptr<Member>> members;
};

/// Operation `number` of a broadcast: the root's side, a member's side.
void give(NodeTeam& team, uint64_t number, size_t bytes) {
  team.enter();
  std::byte* place = team.place(bytes);
  require(place, "there is room");
  std::memset(place, int(number), bytes);
  team.publish();
}
void take(NodeTeam& team, uint64_t number, size_t bytes) {
  team.enter();
  const std::byte* data = team.await_all(0, bytes);
  require(data, "it has come");
  for (size_t i = 0; i < bytes; i += 7) require(data[i] == std::byte(number), "what was given to this operation");
}

/// Broadcasts of `bytes`, the first one of `first_bytes`: `before` of them are over, the next ones are explored.
Program broadcasts(int ranks, uint64_t before, uint64_t count, size_t bytes, size_t first_bytes) {
  return [=](Execution& execution) {
    auto team = std::make_shared<Team>(ranks);
    const auto bytes_of = [=](uint64_t number) { return number == 1 ? first_bytes : bytes; };
    for (uint64_t number = 1; number <= before; ++number) {
      give((*team)[0], number, bytes_of(number));
      for (int i = 1; i < ranks; ++i) take((*team)[size_t(i)], number, bytes_of(number));
    }
    team->share_with(execution);
    for (int i = 0; i < ranks; ++i) {
      execution.thread([=] {
        for (uint64_t number = before + 1; number <= before + count; ++number) {
          if (i == 0) give((*team)[0], number, bytes_of(number));
          else take((*team)[size_t(i)], number, bytes_of(number));
        }
      });
    }
  };
}

Program broadcasts(int ranks, uint64_t before, uint64_t count, size_t bytes) {
  return broadcasts(ranks, before, count, bytes, bytes);
}

TEST(NodeTeam, ABroadcast) {
  const Bounds bounds{.preemptions = 2, .old_values = 2};
  const Program program = broadcasts(2, 0, 2, 8);
  const Outcome outcome = must_hold("node team, 2 members, 2 broadcasts", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "node_team"), 2u);
}

// The root runs ahead by as many operations as there are bulk slots, and must wait before it takes the first again.
TEST(NodeTeam, TheRootWaitsForRoom) {
  const Bounds bounds{.preemptions = 2, .old_values = 1};
  const Program program = broadcasts(2, 0, NodeTeam::kBulkSlots + 1, NodeTeam::kShortBytes + 1);
  const Outcome outcome = must_hold("node team, 2 members, 9 broadcasts of bulk data", bounds, program);
  EXPECT_GE(count_needed(outcome, bounds, program, "node_team"), 3u);
}

// Short data share a slot, so the root may run further ahead with them; but not while long data are there.
TEST(NodeTeam, ShortDataDoNotReplaceLongOnes) {
  const Bounds bounds{.preemptions = 2, .old_values = 1};
  must_hold("node team, 2 members, bulk data and 8 short broadcasts", bounds,
            broadcasts(2, 0, NodeTeam::kBulkSlots + 1, 64, NodeTeam::kShortStride + 64));
}

TEST(NodeTeam, ThreeMembers) {
  must_hold("node team, 3 members, 1 broadcast", {.preemptions = 1, .old_values = 1}, broadcasts(3, 5, 1, 8));
}

/// Operation `number` of a chain, as a scan where members share cores: each reads what the one before it has written.
void pass_on(NodeTeam& team, uint64_t number, size_t bytes) {
  team.enter();
  if (team.rank() > 0) {
    const std::byte* data = team.await_all(team.rank() - 1, bytes);
    require(data, "it has come");
    for (size_t i = 0; i < bytes; i += 7)
      require(data[i] == std::byte(number + uint64_t(team.rank())), "what was passed on in this operation");
  }
  if (team.rank() + 1 == team.size()) return;
  std::byte* place = team.place(bytes);
  require(place, "there is room");
  std::memset(place, int(number) + team.rank() + 1, bytes);
  team.publish_for(team.rank() + 1);
}

// A member waits only for the one that reads what it has written: the first two are through with all slots before the
// third has begun. What all read comes last.
TEST(NodeTeam, AChainAndABroadcast) {
  static constexpr uint64_t kChain = NodeTeam::kBulkSlots, kLast = kChain + 2;
  static constexpr size_t kBytes = NodeTeam::kShortBytes + 1;
  must_hold("node team, 3 members, 9 chains, a broadcast", {.preemptions = 1, .old_values = 1},
            [](Execution& execution) {
              auto team = std::make_shared<Team>(3);
              for (uint64_t number = 1; number <= kChain; ++number) {
                for (size_t i : {0u, 1u}) pass_on((*team)[i], number, kBytes);
              }
              team->share_with(execution);
              for (size_t i : {0u, 1u, 2u}) {
                execution.thread([=] {
                  for (uint64_t number = i == 2 ? 1 : kChain + 1; number <= kLast; ++number) {
                    if (number != kLast) pass_on((*team)[i], number, kBytes);
                    else if (i == 0) give((*team)[0], number, kBytes);
                    else take((*team)[i], number, kBytes);
                  }
                });
              }
            });
}

// Everybody gives and everybody takes, twice.
TEST(NodeTeam, AnExchange) {
  const Bounds bounds{.preemptions = 2, .old_values = 1};
  must_hold("node team, 2 members, 2 exchanges", bounds, [](Execution& execution) {
    auto team = std::make_shared<Team>(2);
    team->share_with(execution);
    for (size_t me : {0u, 1u}) {
      execution.thread([=] {
        for (uint64_t number = 1; number <= 2; ++number) {
          NodeTeam& mine = (*team)[me];
          mine.enter();
          std::byte* place = mine.place(8);
          require(place, "there is room");
          std::memset(place, int(number), 8);
          mine.publish();
          const std::byte* data = mine.await_all(1 - int(me), 8);
          require(data && data[0] == std::byte(number), "what was given to this operation");
        }
      });
    }
  });
}

}  // namespace
}  // namespace tern::explore
