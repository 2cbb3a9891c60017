#include "coll/lanes.h"

#include <algorithm>

namespace tern {

Lanes::Lanes(Builder& b, int lanes, int root)
    : levels(*b.environment().levels),
      node(levels.node_of(b.rank())),
      index(levels.index_of(b.rank())),
      members(levels.members(node)),
      count(lanes),
      inside(b),
      across(b) {
  TERN_ASSERT(lanes >= 1 && lanes <= levels.fewest());
  const int root_node = root < 0 ? -1 : levels.node_of(root);
  if (root_node == node && lanes == 1) leader = levels.index_of(root);
  ranks_ = static_cast<int*>(static_cast<void*>(b.temporary(sizeof(int) * size_t(members + levels.nodes()))));
  if (!ranks_) return;
  for (int i = 0; i < members; ++i) ranks_[i] = levels.rank(node, i);
  inside.narrow(ranks_, members, index);
  if (!works()) return;
  int* lane = ranks_ + members;
  for (int i = 0; i < levels.nodes(); ++i) {
    const int of_node = lanes == 1 && i == root_node ? levels.index_of(root) : number();
    lane[i] = levels.rank(i, of_node);
  }
  across.narrow(lane, levels.nodes(), node);
}

int lanes_for(const Builder& b, size_t bytes) {
  const int fewest = b.environment().levels->fewest();
  return int(std::clamp<size_t>(bytes / b.environment().part_bytes, 1, size_t(fewest)));
}

size_t bytes_of_all(const Builder& b, const Side& side) {
  if (side.shape == Side::Shape::uniform) return side.bytes() * size_t(b.size());
  TERN_DEBUG_ASSERT(side.shape == Side::Shape::vector);
  Count count = 0;
  for (int i = 0; i < b.size(); ++i) count += side.counts[i];
  return size_t(count) * size_t(side.type->size());
}

void build_flat(Builder& b, Operation operation, const Operands& o) {
  const Situation situation = situation_of(operation, o, b.size());
  const Algorithm& algorithm = b.environment().selection.choose(situation);
  algorithm.build(b, o);
}

bool through_memory(const Lanes& lanes, Operation operation, const Operands& o) {
  return lanes.inside.environment().inside_team && lanes.inside.schedule().immediate() &&
         suits_node(situation_of(operation, o, lanes.members), o);
}

void build_inside(Lanes& lanes, Operation operation, const Operands& o) {
  lanes.inside.fence_receives();
  build_inside_beside(lanes, operation, o);
}

void build_inside_beside(Lanes& lanes, Operation operation, const Operands& o) {
  Builder& b = lanes.inside;
  if (!through_memory(lanes, operation, o)) return build_flat(b, operation, o);
  Situation situation = situation_of(operation, o, lanes.members);
  situation.node_memory = true;
  const Algorithm& algorithm = b.environment().selection.choose(situation);
  if (!algorithm.at_once) return algorithm.build(b, o);  // TERN_COLL wants another one
  NodeTeam& team = *b.environment().inside_team;
  team.set_operation(operation);
  if (Error error = algorithm.at_once(team, o)) b.schedule().fail(std::move(error));
}

}  // namespace tern
