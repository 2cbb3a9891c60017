// Collectives on intercommunicators (MPI 5.0, 6.2.3): all-to-one and one-to-all between the groups, the work within a
// group done by its own members. The local parts run on the local team, whose messages are apart from the others.
//
//   reduce     group B reduces to its rank 0 ──> root in A
//   bcast      root in A ──> rank 0 of B, which broadcasts in B
//   allreduce  each group reduces to its rank 0; the two exchange; each broadcasts
#include "coll/algorithms.h"

namespace tern {

namespace {
using Team = Builder::Team;

void barrier(Builder& b) {
  Builder local = b.team(Team::local), remote = b.team(Team::remote);
  barrier_dissemination(local, {});
  if (b.rank() == 0) {
    remote.await(0);
    remote.signal(0);
    remote.fence_receives();
  }
  barrier_dissemination(local, {});
}

void bcast(Builder& b, const Operands& o) {
  if (o.root == kProcNull) return;
  Builder remote = b.team(Team::remote);
  Block buffer = o.receive.whole();
  if (o.root == kRoot) {
    remote.send(buffer, 0);
    return;
  }
  if (b.rank() == 0) {
    remote.receive(buffer, o.root);
    remote.fence_receives();
  }
  Operands within = o;
  within.root = 0;
  Builder local = b.team(Team::local);
  bcast_binomial(local, within);
}

void gather(Builder& b, const Operands& o) {
  if (o.root == kProcNull) return;
  Builder remote = b.team(Team::remote);
  if (o.root != kRoot) {
    remote.send(o.send.buffer, o.send.count, *o.send.type, o.root);
    return;
  }
  for (int i = 0; i < remote.size(); ++i) remote.receive(o.receive.block(i), i);
}

void scatter(Builder& b, const Operands& o) {
  if (o.root == kProcNull) return;
  Builder remote = b.team(Team::remote);
  if (o.root != kRoot) {
    remote.receive(o.receive.buffer, o.receive.count, *o.receive.type, o.root);
    return;
  }
  for (int i = 0; i < remote.size(); ++i) remote.send(o.send.block(i), i);
}

// Every rank of one group with every rank of the other.
void exchange(Builder& b, const Operands& o, bool own_block_for_each) {
  Builder remote = b.team(Team::remote);
  int size = remote.size(), first = b.rank() % size;
  for (int s = 0; s < size; ++s) {
    int from = (first + s) % size;
    remote.receive(o.receive.block(from), from);
  }
  for (int s = 0; s < size; ++s) {
    int to = (first + s) % size;
    if (own_block_for_each) {
      remote.send(o.send.block(to), to);
    } else {
      remote.send(o.send.buffer, o.send.count, *o.send.type, to);
    }
  }
}

// The vector of this rank's group, reduced; at its rank 0 only (else null).
std::byte* reduce_within(Builder& b, const Operands& o, Count count) {
  Builder local = b.team(Team::local);
  Operands within = o;
  within.root = 0;
  within.receive.count = count;
  within.receive.buffer = b.rank() == 0 ? b.temporary(count, *o.receive.type) : nullptr;
  reduce_binomial(local, within);
  return within.receive.buffer;
}

void reduce(Builder& b, const Operands& o) {
  if (o.root == kProcNull) return;
  Builder remote = b.team(Team::remote);
  if (o.root == kRoot) {
    remote.receive(o.receive.buffer, o.receive.count, *o.receive.type, 0);
    return;
  }
  std::byte* value = reduce_within(b, o, o.receive.count);
  if (b.rank() == 0) remote.send(value, o.receive.count, *o.receive.type, o.root);
}

void allreduce(Builder& b, const Operands& o) {
  Builder local = b.team(Team::local), remote = b.team(Team::remote);
  std::byte* value = reduce_within(b, o, o.receive.count);
  if (b.rank() == 0) {
    remote.receive(o.receive.buffer, o.receive.count, *o.receive.type, 0);
    remote.send(value, o.receive.count, *o.receive.type, 0);
    remote.fence_receives();
  }
  Operands within = o;
  within.root = 0;
  bcast_binomial(local, within);
}

void reduce_scatter(Builder& b, const Operands& o) {
  Builder local = b.team(Team::local), remote = b.team(Team::remote);
  auto length = [&](int i) { return o.receive.shape == Side::Shape::uniform ? o.receive.count : o.receive.counts[i]; };
  const Datatype& type = *o.receive.type;
  Count total = 0;
  for (int i = 0; i < local.size(); ++i) total += length(i);
  std::byte* value = reduce_within(b, o, total);
  if (b.rank() != 0) {
    local.receive(o.receive.buffer, length(b.rank()), type, 0);
    return;
  }
  std::byte* theirs = b.temporary(total, type);
  remote.receive(theirs, total, type, 0);
  remote.send(value, total, type, 0);
  remote.fence_receives();
  Count at = length(0);
  b.copy(theirs, o.receive.buffer, at, type);
  for (int i = 1; i < local.size(); ++i) {
    local.send(element(theirs, at, type), length(i), type, i);
    at += length(i);
  }
}
}  // namespace

void build_inter(Builder& b, Operation operation, const Operands& o) {
  switch (operation) {
    case Operation::barrier: return barrier(b);
    case Operation::bcast: return bcast(b, o);
    case Operation::gather:
    case Operation::gatherv: return gather(b, o);
    case Operation::scatter:
    case Operation::scatterv: return scatter(b, o);
    case Operation::allgather:
    case Operation::allgatherv: return exchange(b, o, false);
    case Operation::alltoall:
    case Operation::alltoallv:
    case Operation::alltoallw: return exchange(b, o, true);
    case Operation::reduce: return reduce(b, o);
    case Operation::allreduce: return allreduce(b, o);
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_block: return reduce_scatter(b, o);
    default: TERN_ASSERT(false);  // capi/ refuses scans and neighbourhood operations on intercommunicators
  }
}

}  // namespace tern
