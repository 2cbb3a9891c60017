// Barriers and moving data over nodes (lanes.h). Drawings: two nodes, A with members a b c, B with d e.
#include <algorithm>
#include <new>

#include "coll/lanes.h"

namespace tern {

// Inside each node, dissemination among the leaders, inside each node.
void barrier_leaders(Builder& b, const Operands& o) {
  Lanes lanes(b, 1);
  if (!lanes) return;
  const bool memory = through_memory(lanes, Operation::barrier, o);
  if (memory) build_inside(lanes, Operation::barrier, o);
  else barrier_up(lanes.inside);
  if (lanes.works()) barrier_dissemination(lanes.across, o);
  if (memory) build_inside(lanes, Operation::barrier, o);
  else barrier_down(lanes.inside);
}

// The root's node is led by the root.
//
//   a ──> d      a ──> b, a ──> c, d ──> e
void bcast_leaders(Builder& b, const Operands& o) {
  Lanes lanes(b, 1, o.root);
  if (!lanes) return;
  Operands part = o;
  part.root = lanes.levels.node_of(o.root);
  if (lanes.works()) build_flat(lanes.across, Operation::bcast, part);
  part.root = lanes.leader;
  build_inside(lanes, Operation::bcast, part);
}

namespace {
/// Blocks of a node, packed one after the other in the order of its members.
struct NodeBlocks {
  NodeBlocks(const Levels& levels, const Side& side, int node) : levels_(levels), side_(side), node_(node) {
    for (int i = 0; i < levels.members(node); ++i) bytes += block(i).bytes();
  }
  Block block(int index) const { return side_.block(levels_.rank(node_, index)); }
  void pack(Builder& b, std::byte* to) const {
    for (int i = 0; i < levels_.members(node_); ++i) {
      b.pack(block(i), to);
      to += block(i).bytes();
    }
  }
  /// All but the member `except`'s.
  void unpack(Builder& b, const std::byte* from, int except = -1) const {
    for (int i = 0; i < levels_.members(node_); ++i) {
      if (i != except) b.unpack(from, block(i));
      from += block(i).bytes();
    }
  }
  size_t bytes = 0;

 private:
  const Levels& levels_;
  const Side& side_;
  int node_;
};

Block own_block(const Builder& b, const Operands& o) {
  return o.in_place ? o.receive.block(b.rank()) : o.send.whole();
}
}  // namespace

namespace {
Side side_of(std::byte* data, Count count, const Datatype& type) {
  Side side;
  side.buffer = data;
  side.count = count;
  side.type = &type;
  return side;
}

/// How the root of a gather or scatter holds the blocks of a node: as neighbours in its buffer where ranks go node by
/// node, else packed apart.
struct RootBlocks {
  RootBlocks(Builder& b, const Levels& levels_, const Side& side_, int node_)
      : levels(levels_), side(side_), node(node_), direct(levels_.in_blocks()), packed(levels_, side_, node_) {
    if (!direct) memory = b.temporary(packed.bytes);
  }
  /// The blocks of all members, in their order.
  Side members(Builder& b) const {
    if (!direct) return side_of(memory, Count(side.bytes()), b.byte());
    return side_of(side.block(levels.rank(node, 0)).data, side.count, *side.type);
  }
  const Levels& levels;
  const Side& side;
  int node;
  bool direct;
  NodeBlocks packed;
  std::byte* memory = nullptr;
};

/// A gather or scatter over nodes: each has one leader, the root's node the root.
struct Rooted {
  Rooted(Builder& b, const Operands& o)
      : lanes(b, 1, o.root), levels(lanes.levels), root(b.rank() == o.root), root_node(levels.node_of(o.root)) {
    node.root = lanes.leader;
  }
  /// At a leader that is not the root: memory for the blocks of its node, `bytes` each.
  Side packed(Builder& b, size_t bytes) const {
    return side_of(b.temporary(bytes * size_t(lanes.members)), Count(bytes), b.byte());
  }
  Lanes lanes;
  const Levels& levels;
  const bool root;
  const int root_node;
  Operands node;  ///< of the part inside this node
};
}  // namespace

// Each node's blocks travel as one message, from its leader. The root is ready for them before it turns to its own
// node.
//
//   b ──> a, c ──> a, e ──> d      d ──de──> a
void gather_leaders(Builder& b, const Operands& o) {
  Rooted tree(b, o);
  if (!tree.lanes) return;
  if (!tree.root) {
    tree.node.send = o.send;
    const size_t bytes = o.send.bytes();
    if (tree.lanes.works()) tree.node.receive = tree.packed(b, bytes);
    build_inside(tree.lanes, Operation::gather, tree.node);
    if (!tree.lanes.works()) return;
    b.fence_receives();
    return tree.lanes.across.send_bytes(tree.node.receive.buffer, bytes * size_t(tree.lanes.members), tree.root_node);
  }
  const int nodes = tree.levels.nodes();
  auto* blocks = static_cast<RootBlocks*>(static_cast<void*>(b.temporary(sizeof(RootBlocks) * size_t(nodes))));
  if (!blocks) return;
  for (int n = 0; n < nodes; ++n) {
    const RootBlocks& there = *new (&blocks[n]) RootBlocks(b, tree.levels, o.receive, n);
    if (n != tree.root_node) tree.lanes.across.receive(there.members(b).blocks(0, tree.levels.members(n)), n);
  }
  const RootBlocks& here = blocks[tree.root_node];
  const Block own = own_block(b, o);
  tree.node.send = side_of(own.data, own.count, *own.type);
  tree.node.receive = here.members(b);
  tree.node.in_place = o.in_place && here.direct;
  build_inside_beside(tree.lanes, Operation::gather, tree.node);
  if (here.direct) return;
  b.fence_receives();
  for (int n = 0; n < nodes; ++n) {
    const int except = n == tree.root_node && o.in_place ? tree.lanes.index : -1;
    blocks[n].packed.unpack(b, blocks[n].memory, except);
  }
}

// The mirror image of gather_leaders.
void scatter_leaders(Builder& b, const Operands& o) {
  Rooted tree(b, o);
  if (!tree.lanes) return;
  tree.node.receive = o.receive;
  if (!tree.root) {
    const size_t bytes = o.receive.bytes();
    if (tree.lanes.works()) {
      tree.node.send = tree.packed(b, bytes);
      tree.lanes.across.receive_bytes(tree.node.send.buffer, bytes * size_t(tree.lanes.members), tree.root_node);
    }
    return build_inside(tree.lanes, Operation::scatter, tree.node);
  }
  for (int n = 0; n < tree.levels.nodes(); ++n) {
    const RootBlocks blocks(b, tree.levels, o.send, n);
    if (!blocks.direct) blocks.packed.pack(b, blocks.memory);
    if (n == tree.root_node) tree.node.send = blocks.members(b);
    else tree.lanes.across.send(blocks.members(b).blocks(0, tree.levels.members(n)), n);
  }
  tree.node.in_place = o.in_place;
  build_inside(tree.lanes, Operation::scatter, tree.node);
}

// Leaders collect their node's blocks, exchange them, and broadcast everything in their node. Where all blocks are
// alike and ranks go node by node, the blocks lie where they belong all the time; else packed, node after node.
//
//   b, c ──> a, e ──> d      a <──abc de──> d      a ──abcde──> b, c   d ──abcde──> e
void allgather_leaders(Builder& b, const Operands& o) {
  Lanes lanes(b, 1);
  const Levels& levels = lanes.levels;
  const int nodes = levels.nodes();
  auto* counts = static_cast<int64_t*>(static_cast<void*>(b.temporary(sizeof(int64_t) * size_t(2 * nodes))));
  if (!lanes || !counts) return;
  const bool direct = levels.in_blocks() && o.receive.shape == Side::Shape::uniform;
  int64_t* begins = counts + nodes;
  int64_t total = 0;
  for (int n = 0; n < nodes; ++n) {
    begins[n] = total;
    total += counts[n] = direct ? levels.members(n) * o.receive.count : Count(NodeBlocks(levels, o.receive, n).bytes);
  }
  Side all = direct ? o.receive : side_of(b.temporary(size_t(total)), 0, b.byte());
  all.count = total;
  const Block own = own_block(b, o);
  if (lanes.works()) {
    std::byte* at = all.buffer + begins[lanes.node] * all.type->extent();
    for (int i = 0; i < lanes.members; ++i) {
      const Block block = o.receive.block(lanes.rank(lanes.node, i));
      if (i == lanes.index) {
        if (!direct) b.pack(own, at);
        else if (!o.in_place) b.copy(own, block);
      } else {
        if (direct) lanes.inside.receive(block, i);
        else lanes.inside.receive_bytes(at, block.bytes(), i);
      }
      at += direct ? o.receive.stride() : Aint(block.bytes());
    }
    b.fence_receives();
    Operands exchange;
    exchange.in_place = true;
    exchange.receive = all;
    if (levels.fewest() == levels.most() && direct) {
      exchange.receive.count = counts[0];
      build_flat(lanes.across, Operation::allgather, exchange);
    } else {
      exchange.receive.shape = Side::Shape::vector;
      exchange.receive.counts = CountArray(counts);
      exchange.receive.displs = CountArray(begins);
      build_flat(lanes.across, Operation::allgatherv, exchange);
    }
    b.fence_receives();
  } else {
    lanes.inside.send(own, lanes.leader);
    if (o.in_place) b.fence();  // the broadcast comes into the same memory
  }
  Operands everything;
  everything.receive = all;
  everything.root = lanes.leader;
  build_inside(lanes, Operation::bcast, everything);
  if (direct) return;
  b.fence();
  for (int n = 0; n < nodes; ++n) {
    NodeBlocks(levels, o.receive, n)
        .unpack(b, all.buffer + begins[n], n == lanes.node && o.in_place ? lanes.index : -1);
  }
}

// Lane j has the blocks of members j, j + lanes, ... of its node, exchanges them with the other nodes, and gives all
// that it has then to the members of its node. Blocks go from and to where they belong.
//
//   two lanes    c ──> a      a <──ac d──> d,  b <──b e──> e      a ──acd──> b, c   b ──be──> a, c   d ──> e ──> d
void allgather_lanes(Builder& b, const Operands& o) {
  const int count = lanes_for(b, bytes_of_all(b, o.receive));
  if (count == 1) return allgather_leaders(b, o);
  Lanes lanes(b, count);
  if (!lanes) return;
  const int nodes = lanes.levels.nodes();
  const Block own = own_block(b, o);
  if (!lanes.works()) {
    lanes.inside.send(own, lanes.index % count);
  } else {
    for (int i = lanes.index + count; i < lanes.members; i += count) {
      lanes.inside.receive(o.receive.block(lanes.rank(lanes.node, i)), i);
    }
  }
  if (!o.in_place) b.copy(own, o.receive.block(b.rank()));
  b.fence_receives();
  if (lanes.works()) {
    for (int s = 1; s < nodes; ++s) {
      const int from = (lanes.node - s + nodes) % nodes;
      for (int i = lanes.index; i < lanes.levels.members(from); i += count) {
        lanes.across.receive(o.receive.block(lanes.rank(from, i)), from);
      }
    }
    for (int s = 1; s < nodes; ++s) {
      for (int i = lanes.index; i < lanes.members; i += count) {
        lanes.across.send(o.receive.block(lanes.rank(lanes.node, i)), (lanes.node + s) % nodes);
      }
    }
    b.fence_receives();
  }
  // The blocks that member `lane` has and member `to` lacks, in one order on both sides.
  auto for_blocks = [&](int lane, int to, auto&& act) {
    for (int n = 0; n < nodes; ++n) {
      for (int i = lane; i < lanes.levels.members(n); i += count) {
        if (n != lanes.node || i != to) act(o.receive.block(lanes.rank(n, i)));
      }
    }
  };
  for (int s = 1; s < lanes.members; ++s) {
    const int from = (lanes.index - s + lanes.members) % lanes.members;
    if (from < count) for_blocks(from, lanes.index, [&](const Block& block) { lanes.inside.receive(block, from); });
  }
  for (int s = 1; s < lanes.members && lanes.works(); ++s) {
    const int to = (lanes.index + s) % lanes.members;
    for_blocks(lanes.index, to, [&](const Block& block) { lanes.inside.send(block, to); });
  }
}

namespace {
int count_served(const Levels& levels, int members, int number) {
  int count = 0;
  for_served(levels, members, number, [&](int, int) { ++count; });
  return count;
}
}  // namespace

// First inside the node: member k gets what all members have for the processes it serves (members k of all nodes). Then
// it sends each of them one message with the blocks of the whole node. A process speaks to one process of each other
// node, so adapters keep few connections; blocks cross the network once. All blocks have the same length.
//
//   a has a>a a>b a>c a>d a>e     a to b: a>b a>e     b to e: a>e b>e c>e
void alltoall_lanes(Builder& b, const Operands& o) {
  Lanes lanes(b, b.environment().levels->fewest());
  if (!lanes) return;
  const Levels& levels = lanes.levels;
  const size_t bytes = o.receive.block(0).bytes();
  const Side& source = o.in_place ? o.receive : o.send;
  const int members = lanes.members, served = count_served(levels, members, lanes.index);
  // Slot m: what member m has for the served processes. The own slot is packed like those of others.
  std::byte* in = b.temporary(bytes * size_t(served) * size_t(members));
  std::byte* out = b.temporary(bytes * size_t(b.size()));
  auto slot = [&](int member) { return in + bytes * size_t(served) * size_t(member); };
  for (int s = 1; s < members; ++s) {
    const int from = (lanes.index - s + members) % members;
    lanes.inside.receive_bytes(slot(from), bytes * size_t(served), from);
  }
  std::byte* at = out;
  for (int s = 0; s < members; ++s) {
    const int to = (lanes.index + s) % members;
    std::byte* begin = s == 0 ? slot(lanes.index) : at;
    std::byte* end = begin;
    for_served(levels, members, to, [&](int, int rank) {
      b.pack(source.block(rank), end);
      end += bytes;
    });
    if (s == 0) continue;
    lanes.inside.send_bytes(begin, size_t(end - begin), to);
    at = end;
  }
  b.fence_receives();
  // From each other node, one message of its blocks for this process.
  const bool direct = levels.in_blocks();
  auto sender = [&](int n) { return levels.rank(n, lanes.index % levels.members(n)); };
  std::byte* arrived = direct ? nullptr : b.temporary(bytes * size_t(b.size()));
  size_t taken = 0;
  for (int n = 0; n < levels.nodes(); ++n) {
    if (n == lanes.node) continue;
    const int theirs = levels.members(n);
    if (direct) {
      b.receive(o.receive.blocks(levels.rank(n, 0), theirs), sender(n));
    } else {
      b.receive_bytes(arrived + taken, bytes * size_t(theirs), sender(n));
      taken += bytes * size_t(theirs);
    }
  }
  std::byte* turned = b.temporary(bytes * size_t(served) * size_t(members));
  int number = 0;
  for_served(levels, members, lanes.index, [&](int n, int rank) {
    const size_t offset = bytes * size_t(number);
    std::byte* message = turned + offset * size_t(members);
    for (int m = 0; m < members; ++m) {
      if (n == lanes.node) b.unpack(slot(m) + offset, o.receive.block(levels.rank(n, m)));
      else b.copy_bytes(slot(m) + offset, message + bytes * size_t(m), bytes);
    }
    if (n != lanes.node) b.send_bytes(message, bytes * size_t(members), rank);
    ++number;
  });
  if (direct) return;
  b.fence_receives();
  taken = 0;
  for (int n = 0; n < levels.nodes(); ++n) {
    if (n == lanes.node) continue;
    const NodeBlocks blocks(levels, o.receive, n);
    blocks.unpack(b, arrived + taken);
    taken += blocks.bytes;
  }
}

}  // namespace tern
