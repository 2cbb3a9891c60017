// Barriers by messages (MPI 5.0, 6.3).
#include "coll/algorithms.h"

namespace tern {

// Dissemination (Hensgen, Finkel, Manber 1988): ceil(log2 p) rounds; in round k every rank sends to rank + 2^k.
//
//   ranks   0    1    2    3    4
//   k=0     0->1 1->2 2->3 3->4 4->0
//   k=1     0->2 1->3 2->4 3->0 4->1
//   k=2     0->4 1->0 2->1 3->2 4->3
void barrier_dissemination(Builder& b, const Operands&) {
  int rank = b.rank(), size = b.size();
  for (int distance = 1; distance < size; distance *= 2) {
    b.await((rank - distance + size) % size);
    b.signal((rank + distance) % size);
    // A tag serves all rounds: the partners of different rounds are different processes.
    b.fence_receives();
  }
}

// Up a binomial tree and down again: 2 log2 p messages one after the other, but only 2 (p - 1) in all; better if many
// ranks share few cores.
//
//   up     1->0  3->2  5->4        down   0->4
//          2->0  (6->4)                   0->2  4->6
//          4->0                           0->1  2->3  4->5
void barrier_tree(Builder& b, const Operands&) {
  barrier_up(b);
  barrier_down(b);
}

namespace {
/// The lowest bit of the rank: how far away its parent is; at rank 0 the smallest power of two that is no rank.
int distance_to_parent(const Builder& b) {
  int mask = 1;
  while (mask < b.size() && !(b.rank() & mask)) mask *= 2;
  return mask;
}
}  // namespace

void barrier_up(Builder& b) {
  const int parent = distance_to_parent(b);
  for (int mask = 1; mask < parent; mask *= 2) {
    if ((b.rank() | mask) < b.size()) b.await(b.rank() | mask);
  }
  b.fence_receives();
  if (b.rank() != 0) b.signal(b.rank() - parent);
}

void barrier_down(Builder& b) {
  const int parent = distance_to_parent(b);
  if (b.rank() != 0) b.await(b.rank() - parent);
  b.fence_receives();
  for (int mask = parent / 2; mask > 0; mask /= 2) {
    if ((b.rank() | mask) < b.size()) b.signal(b.rank() | mask);
  }
}

}  // namespace tern
