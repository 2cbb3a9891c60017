// What the algorithms over nodes share (rows "leaders" and "lanes" of select.cc). A node's members number 0 to lanes -
// 1 work on a part of the data each; member j of all nodes together are lane j. Bytes cross the network between members
// of a lane only, each byte once for each node that needs it; the rest is done inside the nodes, by all members.
//
//              lane 0  lane 1                  allreduce:  node: each lane collects and combines its part
//   node 0       0       1       2                         lane: combines it with the other nodes
//   node 1       3       4                                 node: each lane gives its part to all
//
// One lane are the leaders. Source: Traeff, Hunold, "Decomposing MPI Collectives for Exploiting Multi-lane
// Communication" (CLUSTER 2020); Open MPI's HAN (Luo et al., CLUSTER 2020) for leaders.
// Thread rule: lives while a schedule is built.
#pragma once

#include "coll/algorithms.h"
#include "coll/levels.h"

namespace tern {

struct Lanes {
  /// `lanes`: at most the members of the smallest node. With one lane, a member other than the first can stand for its
  /// node: `root` for the node it is in (a negative one: nobody).
  Lanes(Builder& b, int lanes, int root = -1);
  /// Whether there was memory; without it the schedule has failed.
  explicit operator bool() const { return ranks_ != nullptr; }

  int rank(int of_node, int of_index) const { return levels.rank(of_node, of_index); }
  bool works() const { return count == 1 ? index == leader : index < count; }
  /// Number of this lane. Works.
  int number() const { return count == 1 ? 0 : index; }

  const Levels& levels;
  int node, index;  ///< of this process
  int members;      ///< of its node
  int count;        ///< of lanes
  int leader = 0;   ///< with one lane: the index of the member that works
  Builder inside;   ///< the members of this node
  Builder across;   ///< this lane, by node; works() only

 private:
  int* ranks_;
};

/// The processes whose data pass through member `number` of a node with `members`: those whose index in their node is
/// number, number + members, ... `act` gets node and rank.
template <typename Act>
void for_served(const Levels& levels, int members, int number, Act&& act) {
  for (int n = 0; n < levels.nodes(); ++n) {
    for (int i = number; i < levels.members(n); i += members) act(n, levels.rank(n, i));
  }
}

/// As many lanes as have at least CollectiveEnvironment::part_bytes each of `bytes`; one at least.
int lanes_for(const Builder& b, size_t bytes);
/// Of the blocks of all processes, which have one datatype.
size_t bytes_of_all(const Builder& b, const Side& side);

/// The operation in a team by the table's choice of messages alone.
void build_flat(Builder& b, Operation operation, const Operands& o);

/// Whether `build_inside` goes through the node's memory: a blocking call with data that suit it. Equal at all members
/// of a node.
bool through_memory(const Lanes& lanes, Operation operation, const Operands& o);
/// The operation among the members of this node, through its memory or by messages. Receives of earlier steps are
/// complete when it begins.
void build_inside(Lanes& lanes, Operation operation, const Operands& o);
/// As build_inside, beside receives of earlier steps that are under way, of which the operation needs nothing here.
void build_inside_beside(Lanes& lanes, Operation operation, const Operands& o);

}  // namespace tern
