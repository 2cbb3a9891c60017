// What the collectives keep per communicator: the pool of schedules, the choice of algorithms, the sequence of
// persistent operations. Made by the communicator's first collective.
// Thread rule: under the rank's lock.
#pragma once

#include "base/pool.h"
#include "coll/levels.h"
#include "coll/node_team.h"
#include "coll/schedule.h"
#include "coll/select.h"
#include "comm/communicator.h"

namespace tern {

struct CollectiveEnvironment final : Communicator::CollectiveState {
  explicit CollectiveEnvironment(Communicator& communicator);
  ~CollectiveEnvironment() override = default;

  /// The environment of a communicator; made when there is none.
  static CollectiveEnvironment& of(Communicator& communicator) {
    if (communicator.collective_state) return static_cast<CollectiveEnvironment&>(*communicator.collective_state);
    return make(communicator);
  }
  /// Persistent operations may be started in any order, so each keeps a tag of its own, from the half of the
  /// tags that Communicator::next_collective_tag does not use.
  int next_persistent_tag() { return int(0x40000000u | (persistent_sequence_++ & 0x3fffffffu)); }

  Pool<Schedule, 4> schedules;
  Ref<Datatype> byte;  ///< MPI_BYTE
  Selection selection;
  std::unique_ptr<NodeTeam> node_team;  ///< shared memory of the members; null: none (yet)
  /// Blocking collectives that could use node_team; it is made at the kBeforeTeam-th, or never (`no_team`).
  uint32_t wishes = 0;
  bool no_team = false;
  static constexpr uint32_t kBeforeTeam = 4;  ///< making a team costs an allgather; a few uses should repay it
  /// Which members share a node; null: all do, none does, or it is not known yet. Asked for at the kBeforeTeam-th
  /// blocking operation.
  std::unique_ptr<Levels> levels;
  /// With levels: the shared memory of the members on this node.
  std::unique_ptr<NodeTeam> inside_team;
  uint32_t blocking_calls = 0;
  bool levels_asked = false;
  int nodes = 1;  ///< of the members, known when levels are asked for
  /// Shortest part of a vector that is worth a lane (lanes.h): RankEnvironment::part_bytes, the largest of all.
  size_t part_bytes = 1;
  /// All members are on one node, which has more ranks than cores: the same at all of them. Known with node_team, or
  /// when levels are asked for.
  bool shares_cores = false;
  /// Both are collective over the members: they agree on the memory of node_team; they gather the names of their nodes,
  /// and those of each node agree on the memory of inside_team.
  void learn_team(Communicator& communicator);
  void learn_levels(Communicator& communicator);
  /// What learn_levels has found. Levels are kept only where there are several nodes, one of them with several members.
  void set_levels(std::unique_ptr<Levels> found);
  Error selection_error;    ///< of the tunable `coll`: every collective returns it
  const bool reproducible;  ///< by the tunable: reductions give the same bits for any placement

 private:
  static CollectiveEnvironment& make(Communicator& communicator);
  uint32_t persistent_sequence_ = 0;
};

}  // namespace tern
