// Barrier, bcast, reduce and allreduce of small data through the shared memory of a NodeTeam: everyone reads
// what it
// needs where its owner wrote it. The work happens while the "schedule" is built, which is immediate
// (blocking calls only).
//
//   allreduce, 3 ranks     0: writes A     1: writes B     2: writes C
//                          each waits for all three and computes A op (B op C): the same everywhere, in order
#include <cstring>

#include "coll/algorithms.h"

namespace tern {

namespace {
NodeTeam& team_of(Builder& b) { return *b.environment().node_team; }

// Combines everybody's data of this operation into `result`, in the order of ranks.
void combine(NodeTeam& team, const Operands& o, std::byte* result) {
  const Datatype& type = *o.receive.type;
  Count count = o.receive.count;
  size_t bytes = size_t(count * type.size());
  std::memcpy(result, team.await(team.size() - 1), bytes);
  for (int i = team.size() - 2; i >= 0; --i) {
    const std::byte* left = team.await(i);
    if (o.op->is_predefined()) {
      o.op->apply(left, result, count, type);
    } else {
      // A user's function that scribbles on its first argument must not harm the others.
      alignas(64) std::byte own[NodeTeam::kDataBytes];
      std::memcpy(own, left, bytes);
      o.op->apply(own, result, count, type);
    }
  }
}

void contribute(NodeTeam& team, const Operands& o) {
  std::byte* place = team.enter();
  std::memcpy(place, o.contribution(), size_t(o.receive.count * o.receive.type->size()));
  team.publish();
}
}  // namespace

void barrier_node(Builder& b, const Operands&) {
  NodeTeam& team = team_of(b);
  team.enter();
  team.publish();
  for (int i = 0; i < team.size(); ++i) team.await(i);
}

void bcast_node(Builder& b, const Operands& o) {
  NodeTeam& team = team_of(b);
  const Side& buffer = o.receive;
  size_t bytes = size_t(buffer.count * buffer.type->size());
  std::byte* place = team.enter();
  if (team.rank() == o.root) {
    Cursor(buffer.buffer, buffer.count, *buffer.type).pack(place, bytes);
    team.publish();
  } else {
    team.publish();
    Cursor(buffer.buffer, buffer.count, *buffer.type).unpack(team.await(o.root), bytes);
  }
}

void reduce_node(Builder& b, const Operands& o) {
  NodeTeam& team = team_of(b);
  contribute(team, o);
  if (team.rank() == o.root) combine(team, o, o.receive.buffer);
}

void allreduce_node(Builder& b, const Operands& o) {
  NodeTeam& team = team_of(b);
  contribute(team, o);
  combine(team, o, o.receive.buffer);
}

}  // namespace tern
