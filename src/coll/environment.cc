#include "coll/environment.h"

#include <algorithm>
#include <numeric>

#include "coll/algorithms.h"
#include "datatype/predefined.h"

namespace tern {

namespace {
// The memory of a team is allocated by its first member; the others learn where. All members of the communicator call
// this at the same call of theirs, each for the team that it is in. Null: the team has no memory.
std::unique_ptr<NodeTeam> join_team(CollectiveEnvironment& environment, Communicator& communicator,
                                    std::vector<int> ranks) {
  const int tag = communicator.next_collective_tag();
  if (!NodeTeam::possible(communicator, ranks)) return nullptr;
  constexpr uint64_t kNoRoom = ~uint64_t{0};  // instead of an offset
  struct {
    uint64_t offset = kNoRoom, shares_cores = 0;
  } found;
  const int members = int(ranks.size());
  NodeMemory& memory = *communicator.environment().node_memory;
  if (communicator.rank() == ranks[0]) {
    found.shares_cores = communicator.environment().shares_cores;
    if (!memory.allocate(NodeTeam::bytes_for(members), found.offset, NodeTeam::zeroed_bytes_for(members)))
      found.offset = kNoRoom;
  }
  Operands o;
  o.receive.buffer = reinterpret_cast<std::byte*>(&found);
  o.receive.count = sizeof found;
  o.receive.type = environment.byte.get();
  Schedule* schedule = environment.schedules.create(environment, communicator, Mode::blocking, tag);
  Builder builder(*schedule, environment);
  const auto me = std::find(ranks.begin(), ranks.end(), communicator.rank());
  builder.narrow(ranks.data(), members, int(me - ranks.begin()));
  bcast_binomial(builder, o);
  if (schedule->finish_immediate() || found.offset == kNoRoom) return nullptr;
  return std::make_unique<NodeTeam>(communicator, std::move(ranks), found.offset, found.shares_cores != 0);
}
}  // namespace

CollectiveEnvironment::CollectiveEnvironment(Communicator& communicator)
    : reproducible(communicator.environment().p2p.tunables().reproducible != 0) {
  PredefinedTypes types;
  byte = Ref<Datatype>::share(&types.get(type_id::kByte));
  selection_error = selection.parse(communicator.environment().p2p.tunables().coll);
}

CollectiveEnvironment& CollectiveEnvironment::make(Communicator& communicator) {
  communicator.collective_state = std::make_unique<CollectiveEnvironment>(communicator);
  return static_cast<CollectiveEnvironment&>(*communicator.collective_state);
}

// All members make the same calls, so they ask at the same call, and get the same answer.
void CollectiveEnvironment::learn_team(Communicator& communicator) {
  no_team = true;
  if (communicator.is_inter() || communicator.size() > NodeTeam::kMaxMembers) return;
  std::vector<int> all(size_t(communicator.size()));
  std::iota(all.begin(), all.end(), 0);
  node_team = join_team(*this, communicator, std::move(all));
  if (node_team) shares_cores = node_team->shares_cores();
}

void CollectiveEnvironment::set_levels(std::unique_ptr<Levels> found) {
  levels_asked = true;
  nodes = found->nodes();
  if (nodes > 1 && found->most() > 1) levels = std::move(found);
}

void CollectiveEnvironment::learn_levels(Communicator& communicator) {
  levels_asked = true;
  if (communicator.size() < 2 || node_team)
    return;  // the same at all members, as what one knows of its node may not be
  struct Member {
    uint64_t node_name, shares_cores, part_bytes;
  };
  std::vector<Member> all(size_t(communicator.size()));
  const RankEnvironment& mine = communicator.environment();
  all[size_t(communicator.rank())] = {mine.node_name, mine.shares_cores, mine.part_bytes};
  Operands o;
  o.in_place = true;
  o.receive.buffer = reinterpret_cast<std::byte*>(all.data());
  o.receive.count = sizeof all[0];
  o.receive.type = byte.get();
  Schedule* schedule = schedules.create(*this, communicator, Mode::blocking, communicator.next_collective_tag());
  Builder builder(*schedule, *this);
  allgather_bruck(builder, o);
  if (schedule->finish_immediate()) return;
  bool some_share = false;
  std::vector<uint64_t> names;
  for (const Member& member : all) {
    names.push_back(member.node_name);
    some_share = some_share || member.shares_cores != 0;
    part_bytes = std::max(part_bytes, size_t(member.part_bytes));
  }
  set_levels(std::make_unique<Levels>(names));
  shares_cores = nodes == 1 && some_share;
  if (!levels) return;
  const int node = levels->node_of(communicator.rank());
  std::vector<int> members;
  for (int i = 0; i < levels->members(node); ++i) members.push_back(levels->rank(node, i));
  inside_team = join_team(*this, communicator, std::move(members));
}

}  // namespace tern
