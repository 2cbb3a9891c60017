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
  int rank = b.rank(), size = b.size();
  int mask = 1;
  while (mask < size && !(rank & mask)) {
    if ((rank | mask) < size) b.await(rank | mask);
    mask *= 2;
  }
  b.fence_receives();
  if (rank != 0) {
    b.signal(rank - mask);
    b.await(rank - mask);
    b.fence_receives();
  }
  for (mask /= 2; mask > 0; mask /= 2) {
    if ((rank | mask) < size) b.signal(rank | mask);
  }
}

}  // namespace tern
