// The algorithms, one function each: it writes the steps of this rank into a schedule. Drawings stand with the
// definitions, one file per family. All are for teams of any size that the table (select.cc) allows.
#pragma once

#include "coll/builder.h"
#include "coll/operands.h"

namespace tern {

/// This rank in a tree whose root is 0, and back.
inline int relative_rank(const Builder& b, int root) { return (b.rank() - root + b.size()) % b.size(); }
inline int absolute_rank(const Builder& b, int root, int relative) { return (relative + root) % b.size(); }

// barrier.cc
void barrier_dissemination(Builder& b, const Operands& o);
void barrier_tree(Builder& b, const Operands& o);
void barrier_up(Builder& b);    ///< half of barrier_tree: at rank 0 all have come
void barrier_down(Builder& b);  ///< the other half: rank 0 lets all go

// bcast.cc: the buffer is o.receive
void bcast_linear(Builder& b, const Operands& o);
void bcast_binomial(Builder& b, const Operands& o);
void bcast_scatter_allgather(Builder& b, const Operands& o);
void bcast_spread(Builder& b, const Operands& o);
void bcast_chain(Builder& b, const Operands& o);

// gather.cc
void gather_binomial(Builder& b, const Operands& o);
void gather_linear(Builder& b, const Operands& o);  ///< also gatherv
void scatter_binomial(Builder& b, const Operands& o);
void scatter_linear(Builder& b, const Operands& o);  ///< also scatterv

// allgather.cc: all but recursive doubling also allgatherv
void allgather_recursive_doubling(Builder& b, const Operands& o);
void allgather_bruck(Builder& b, const Operands& o);
void allgather_ring(Builder& b, const Operands& o);
void allgather_spread(Builder& b, const Operands& o);

// alltoall.cc: all but Bruck also alltoallv, alltoallw
void alltoall_bruck(Builder& b, const Operands& o);
void alltoall_pairwise(Builder& b, const Operands& o);
void alltoall_spread(Builder& b, const Operands& o);

// reduce.cc
void reduce_binomial(Builder& b, const Operands& o);  ///< keeps the order of ranks if the operator is not commutative
void reduce_rabenseifner(Builder& b, const Operands& o);
void reduce_chain(Builder& b, const Operands& o);

// allreduce.cc
void allreduce_recursive_doubling(Builder& b, const Operands& o);
void allreduce_rabenseifner(Builder& b, const Operands& o);
void allreduce_ring(Builder& b, const Operands& o);
void allreduce_spread(Builder& b, const Operands& o);
void allreduce_reduce_bcast(Builder& b, const Operands& o);

// reduce_scatter.cc: also reduce_scatter_block
void reduce_scatter_halving(Builder& b, const Operands& o);
void reduce_scatter_pairwise(Builder& b, const Operands& o);
void reduce_scatter_spread(Builder& b, const Operands& o);
void reduce_scatter_by_root(Builder& b, const Operands& o);

// scan.cc: also exscan
void scan_recursive_doubling(Builder& b, const Operands& o);
void scan_linear(Builder& b, const Operands& o);
void scan_tree(Builder& b, const Operands& o);
void exscan_recursive_doubling(Builder& b, const Operands& o);
void exscan_linear(Builder& b, const Operands& o);
void exscan_tree(Builder& b, const Operands& o);

// lanes_data.cc, lanes_reduce.cc, bcast.cc: over several nodes (lanes.h)
void barrier_leaders(Builder& b, const Operands& o);
void bcast_leaders(Builder& b, const Operands& o);
void bcast_lanes(Builder& b, const Operands& o);
void gather_leaders(Builder& b, const Operands& o);
void scatter_leaders(Builder& b, const Operands& o);
void allgather_leaders(Builder& b, const Operands& o);  ///< also allgatherv
void allgather_lanes(Builder& b, const Operands& o);    ///< also allgatherv
void alltoall_lanes(Builder& b, const Operands& o);
void reduce_leaders(Builder& b, const Operands& o);
void reduce_lanes(Builder& b, const Operands& o);
void allreduce_leaders(Builder& b, const Operands& o);
void allreduce_lanes(Builder& b, const Operands& o);
void reduce_scatter_leaders(Builder& b, const Operands& o);  ///< also reduce_scatter_block
void reduce_scatter_lanes(Builder& b, const Operands& o);    ///< also reduce_scatter_block

// node.cc: through the shared memory of a NodeTeam, complete on return. Each returns its error.
Error barrier_node(NodeTeam& team, const Operands& o);
Error bcast_node(NodeTeam& team, const Operands& o);
Error gather_node(NodeTeam& team, const Operands& o);
Error scatter_node(NodeTeam& team, const Operands& o);
Error allgather_node(NodeTeam& team, const Operands& o);  ///< also allgatherv
Error alltoall_node(NodeTeam& team, const Operands& o);
Error reduce_node(NodeTeam& team, const Operands& o);
Error allreduce_node(NodeTeam& team, const Operands& o);
Error reduce_scatter_node(NodeTeam& team, const Operands& o);  ///< also reduce_scatter_block
Error scan_node(NodeTeam& team, const Operands& o);
Error exscan_node(NodeTeam& team, const Operands& o);

// inter.cc: any operation on an intercommunicator
void build_inter(Builder& b, Operation operation, const Operands& o);

// neighbor.cc: any neighbourhood operation
void build_neighbor(Builder& b, Operation operation, const Operands& o);

// --- Shared by the families.
inline int floor_power_of_two(int n) { return 1 << (31 - __builtin_clz(unsigned(n))); }
/// Parts of a pipeline along a chain: 64 KiB are worth a rendezvous and still fit the second-level cache; at most 1024
/// of them keep the schedule of a huge message small.
inline constexpr size_t kPartBytes = 65536, kMaxParts = 1024;
/// All ranks send to all at once, by `send(to)`. What comes here, `mine` elements from each, is combined with `own` in
/// the order of ranks: one round, for any operator. Needs memory for what all ranks send here.
template <typename Send>
void combine_from_all(Builder& b, const Operands& o, const std::byte* own, Count mine, const Send& send) {
  const Datatype& type = *o.receive.type;
  const int rank = b.rank(), size = b.size();
  std::byte* all = b.temporary(mine * size, type);
  auto from = [&](int sender) { return element(all, mine * sender, type); };
  for (int i = 1; i < size; ++i) {
    const int sender = (rank - i + size) % size;
    b.receive(from(sender), mine, type, sender);
  }
  for (int i = 1; i < size; ++i) send((rank + i) % size);
  b.copy(own, from(rank), mine, type);
  b.fence_receives();
  for (int i = 1; i < size; ++i) b.reduce(from(i - 1), from(i), mine, type);
  if (o.in_place) b.fence();  // what is still being sent would be overwritten
  b.copy(from(size - 1), o.receive.buffer, mine, type);
}
/// First element of part `i` of `parts` nearly equal parts.
inline Count part_begin(Count elements, int i, int parts) {
  return elements / parts * i + elements % parts * i / parts;
}

}  // namespace tern
