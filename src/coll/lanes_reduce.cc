// Reductions over nodes (lanes.h), for commutative operators.
#include <algorithm>

#include "coll/lanes.h"

namespace tern {

namespace {
/// A vector cut into one part for each lane.
struct Cut {
  Cut(const Operands& o, int lanes_) : type(*o.receive.type), count(o.receive.count), lanes(lanes_) {}
  Count begin(int lane) const { return part_begin(count, lane, lanes); }
  Count length(int lane) const { return begin(lane + 1) - begin(lane); }
  std::byte* at(std::byte* vector, int lane) const { return element(vector, begin(lane), type); }
  const std::byte* at(const std::byte* vector, int lane) const { return element(vector, begin(lane), type); }
  const Datatype& type;
  Count count;
  int lanes;
};

/// Inside the node each lane gets its part from all members and combines it in `part`, which has this member's own
/// values already. What is sent is the contribution, so it must stay until the next fence.
void collect_parts(Builder& b, const Lanes& lanes, const Cut& cut, const Operands& o, std::byte* part) {
  Builder inside = lanes.inside;
  const int members = lanes.members;
  const Count mine = lanes.works() ? cut.length(lanes.number()) : 0;
  std::byte* arrived = lanes.works() ? b.temporary(mine * (members - 1), cut.type) : nullptr;
  for (int s = 1; s < members && lanes.works(); ++s) {
    inside.receive(element(arrived, mine * (s - 1), cut.type), mine, cut.type, (lanes.index - s + members) % members);
  }
  for (int s = 1; s < members; ++s) {
    const int to = (lanes.index + s) % members;
    if (to < lanes.count) inside.send(cut.at(o.contribution(), to), cut.length(to), cut.type, to);
  }
  if (!lanes.works()) return;
  b.fence_receives();
  for (int s = 1; s < members; ++s) b.reduce(element(arrived, mine * (s - 1), cut.type), part, mine, cut.type);
}
}  // namespace

// Each node reduces to its leader, the leaders to the root, which leads its node.
void reduce_leaders(Builder& b, const Operands& o) {
  Lanes lanes(b, 1, o.root);
  if (!lanes) return;
  const bool root = b.rank() == o.root;
  Operands node = o;
  node.root = lanes.leader;
  if (lanes.works() && !root) {
    node.send.buffer = const_cast<std::byte*>(o.contribution());
    node.in_place = false;
    node.receive.buffer = b.temporary(o.receive.count, *o.receive.type);
  }
  build_inside(lanes, Operation::reduce, node);
  if (!lanes.works()) return;
  b.fence_receives();
  Operands across = node;
  across.root = lanes.levels.node_of(o.root);
  across.send.buffer = node.receive.buffer;
  across.in_place = root;
  build_flat(lanes.across, Operation::reduce, across);
}

void allreduce_leaders(Builder& b, const Operands& o) {
  Lanes lanes(b, 1);
  if (!lanes) return;
  Operands node = o;
  node.root = lanes.leader;
  build_inside(lanes, Operation::reduce, node);
  b.fence();
  if (lanes.works()) {
    Operands across = o;
    across.in_place = true;
    build_flat(lanes.across, Operation::allreduce, across);
    b.fence_receives();
  }
  build_inside(lanes, Operation::bcast, node);
}

// Drawing in lanes.h.
void allreduce_lanes(Builder& b, const Operands& o) {
  const Cut cut(o, lanes_for(b, size_t(o.receive.count) * size_t(o.receive.type->size())));
  if (cut.lanes == 1) return allreduce_leaders(b, o);
  Lanes lanes(b, cut.lanes);
  if (!lanes) return;
  Builder inside = lanes.inside;
  std::byte* value = o.receive.buffer;
  std::byte* part = lanes.works() ? cut.at(value, lanes.number()) : nullptr;
  const Count mine = lanes.works() ? cut.length(lanes.number()) : 0;
  if (lanes.works() && !o.in_place) b.copy(cut.at(o.contribution(), lanes.number()), part, mine, cut.type);
  collect_parts(b, lanes, cut, o, part);
  if (lanes.works()) {
    Operands across = o;
    across.in_place = true;
    across.receive.buffer = part;
    across.receive.count = mine;
    build_flat(lanes.across, Operation::allreduce, across);
  }
  b.fence();  // in place, what was sent is overwritten now
  for (int s = 1; s < lanes.members; ++s) {
    const int from = (lanes.index - s + lanes.members) % lanes.members;
    if (from < lanes.count) inside.receive(cut.at(value, from), cut.length(from), cut.type, from);
  }
  for (int s = 1; s < lanes.members && lanes.works(); ++s) {
    inside.send(part, mine, cut.type, (lanes.index + s) % lanes.members);
  }
}

// As allreduce_lanes, but the lanes reduce to the root's node, whose lanes give their parts to the root.
void reduce_lanes(Builder& b, const Operands& o) {
  const Cut cut(o, lanes_for(b, size_t(o.receive.count) * size_t(o.receive.type->size())));
  if (cut.lanes == 1) return reduce_leaders(b, o);
  Lanes lanes(b, cut.lanes);
  if (!lanes) return;
  Builder inside = lanes.inside;
  const int root_node = lanes.levels.node_of(o.root), root_index = lanes.levels.index_of(o.root);
  const bool root = b.rank() == o.root;
  const Count mine = lanes.works() ? cut.length(lanes.number()) : 0;
  std::byte* part = lanes.works() ? b.temporary(mine, cut.type) : nullptr;
  if (lanes.works()) b.copy(cut.at(o.contribution(), lanes.number()), part, mine, cut.type);
  collect_parts(b, lanes, cut, o, part);
  if (lanes.works()) {
    Operands across = o;
    across.in_place = lanes.node == root_node;
    across.send.buffer = part;
    across.receive.buffer = part;
    across.receive.count = mine;
    across.root = root_node;
    build_flat(lanes.across, Operation::reduce, across);
    b.fence_receives();
  }
  if (lanes.node != root_node) return;
  if (!root) {
    if (lanes.works()) inside.send(part, mine, cut.type, root_index);
    return;
  }
  b.fence();  // in place, what was sent is overwritten now
  for (int lane = 0; lane < cut.lanes; ++lane) {
    if (lane != root_index) inside.receive(cut.at(o.receive.buffer, lane), cut.length(lane), cut.type, lane);
  }
  if (lanes.works()) b.copy(part, cut.at(o.receive.buffer, lanes.number()), mine, cut.type);
}

namespace {
/// Elements of the result of each process, and where they begin in the vector.
struct Results {
  Results(Builder& b, const Operands& o) : type(*o.receive.type) {
    begins = static_cast<Count*>(static_cast<void*>(b.temporary(sizeof(Count) * size_t(b.size() + 1))));
    if (!begins) return;
    begins[0] = 0;
    for (int i = 0; i < b.size(); ++i)
      begins[i + 1] = begins[i] + (o.receive.shape == Side::Shape::uniform ? o.receive.count : o.receive.counts[i]);
  }
  Count length(int rank) const { return begins[rank + 1] - begins[rank]; }
  const Datatype& type;
  Count* begins;
};
}  // namespace

// Small vectors: each node reduces to its leader, the leaders reduce and scatter what each node needs, and give it to
// their members. A node's results must be neighbours: where ranks do not go node by node, as reduce_scatter_lanes.
void reduce_scatter_leaders(Builder& b, const Operands& o) {
  if (!b.environment().levels->in_blocks()) return reduce_scatter_lanes(b, o);
  Lanes lanes(b, 1);
  Results results(b, o);
  const Levels& levels = lanes.levels;
  auto* counts = static_cast<int64_t*>(static_cast<void*>(b.temporary(sizeof(int64_t) * size_t(levels.nodes()))));
  if (!lanes || !results.begins || !counts) return;
  const Datatype& type = results.type;
  auto begin_of = [&](int n) { return results.begins[n == levels.nodes() ? b.size() : levels.rank(n, 0)]; };
  Operands node;
  node.op = o.op;
  node.root = lanes.leader;
  node.send.buffer = const_cast<std::byte*>(o.contribution());
  node.send.count = node.receive.count = results.begins[b.size()];
  node.send.type = node.receive.type = &type;
  if (lanes.works()) node.receive.buffer = b.temporary(node.receive.count, type);
  build_inside(lanes, Operation::reduce, node);
  if (!lanes.works()) {
    b.fence();  // in place, the result comes where the contribution was
    lanes.inside.receive(o.receive.buffer, results.length(b.rank()), type, lanes.leader);
    return;
  }
  b.fence_receives();
  for (int n = 0; n < levels.nodes(); ++n) counts[n] = begin_of(n + 1) - begin_of(n);
  Operands across = node;
  across.send.buffer = node.receive.buffer;
  across.receive.buffer = b.temporary(counts[lanes.node], type);
  across.receive.shape = Side::Shape::vector;
  across.receive.counts = CountArray(counts);
  build_flat(lanes.across, Operation::reduce_scatter, across);
  b.fence();
  for (int i = 0; i < lanes.members; ++i) {
    const int rank = lanes.rank(lanes.node, i);
    std::byte* result = element(across.receive.buffer, results.begins[rank] - begin_of(lanes.node), type);
    if (i == lanes.index) b.copy(result, o.receive.buffer, results.length(rank), type);
    else lanes.inside.send(result, results.length(rank), type, i);
  }
}

// Inside the node, member k collects and combines what is meant for the processes that it serves: members k of all
// nodes, and k + members and so on of larger ones. Then each process gets one combined block from each other node.
void reduce_scatter_lanes(Builder& b, const Operands& o) {
  const Levels& nodes = *b.environment().levels;
  if (nodes.in_blocks() && lanes_for(b, bytes_of_all(b, o.receive)) == 1) return reduce_scatter_leaders(b, o);
  Lanes lanes(b, nodes.fewest());
  Results results(b, o);
  if (!lanes || !results.begins) return;
  const Levels& levels = lanes.levels;
  const Datatype& type = results.type;
  const int members = lanes.members;
  auto elements = [&](int number) {
    Count sum = 0;
    for_served(levels, members, number, [&](int, int rank) { sum += results.length(rank); });
    return sum;
  };
  auto collect = [&](int number, std::byte* to) {
    for_served(levels, members, number, [&](int, int rank) {
      b.copy(element(o.contribution(), results.begins[rank], type), to, results.length(rank), type);
      to = element(to, results.length(rank), type);
    });
  };
  const Count served = elements(lanes.index);
  std::byte* value = b.temporary(served, type);
  std::byte* arrived = b.temporary(served * (members - 1), type);
  std::byte* out = b.temporary(results.begins[b.size()], type);
  for (int s = 1; s < members; ++s) {
    lanes.inside.receive(element(arrived, served * (s - 1), type), served, type, (lanes.index - s + members) % members);
  }
  for (int s = 1; s < members; ++s) {
    const int to = (lanes.index + s) % members;
    const Count count = elements(to);
    collect(to, out);
    lanes.inside.send(out, count, type, to);
    out = element(out, count, type);
  }
  collect(lanes.index, value);
  b.fence_receives();
  for (int s = 1; s < members; ++s) b.reduce(element(arrived, served * (s - 1), type), value, served, type);
  // One block from each other node, from the member that serves this process there.
  const Count mine = results.length(b.rank());
  std::byte* blocks = b.temporary(mine * levels.nodes(), type);
  for (int n = 0; n < levels.nodes(); ++n) {
    if (n == lanes.node) continue;
    b.receive(element(blocks, mine * n, type), mine, type, levels.rank(n, lanes.index % levels.members(n)));
  }
  std::byte* own = nullptr;
  for_served(levels, members, lanes.index, [&](int n, int rank) {
    if (n == lanes.node) own = value;
    else b.send(value, results.length(rank), type, rank);
    value = element(value, results.length(rank), type);
  });
  b.fence();
  for (int n = 0; n < levels.nodes(); ++n) {
    if (n != lanes.node) b.reduce(element(blocks, mine * n, type), own, mine, type);
  }
  b.copy(own, o.receive.buffer, mine, type);
}

}  // namespace tern
