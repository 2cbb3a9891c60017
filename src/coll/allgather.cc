// Allgathers (MPI 5.0, 6.7). In place: the own block is in the receive buffer already.
#include <algorithm>

#include "coll/algorithms.h"

namespace tern {

namespace {
void place_own_block(Builder& b, const Operands& o) {
  if (!o.in_place) b.copy(o.send.whole(), o.receive.block(b.rank()));
}
}  // namespace

// Recursive doubling, for powers of two: in round k partners rank ^ 2^k exchange the 2^k blocks they have.
//
//   start  A     B     C     D
//   k=0    AB    AB    CD    CD        0<->1  2<->3
//   k=1    ABCD  ABCD  ABCD  ABCD      0<->2  1<->3
void allgather_recursive_doubling(Builder& b, const Operands& o) {
  int rank = b.rank(), size = b.size();
  place_own_block(b, o);
  for (int mask = 1; mask < size; mask *= 2) {
    int partner = rank ^ mask;
    int mine = rank & ~(mask - 1), theirs = partner & ~(mask - 1);
    b.receive(o.receive.blocks(theirs, mask), partner);
    b.send(o.receive.blocks(mine, mask), partner);
    b.fence_receives();
  }
}

// Bruck et al. 1997: ceil(log2 p) rounds for any p, through a buffer in which the own block comes first.
//
//   p = 3      0      1      2
//   start      A      B      C
//   from +1    AB     BC     CA
//   from +2    ABC    BCA    CAB      (only the 3 - 2 blocks that are missing), then turned into place
void allgather_bruck(Builder& b, const Operands& o) {
  int rank = b.rank(), size = b.size();
  auto owner = [&](int i) { return (rank + i) % size; };
  // Where the i-th block from mine on lies in the buffer.
  auto* start = static_cast<size_t*>(static_cast<void*>(b.temporary(sizeof(size_t) * size_t(size + 1))));
  if (!start) return;
  start[0] = 0;
  for (int i = 0; i < size; ++i) start[i + 1] = start[i] + o.receive.block(owner(i)).bytes();
  std::byte* data = b.temporary(start[size]);
  if (o.in_place) {
    b.pack(o.receive.block(rank), data);
  } else {
    Block own = o.send.whole();
    b.pack(own, data);
    b.copy(own, o.receive.block(rank));
  }
  for (int have = 1; have < size; have *= 2) {
    int more = std::min(have, size - have);
    b.receive_bytes(data + start[have], start[have + more] - start[have], owner(have));
    b.send_bytes(data, start[more], (rank - have + size) % size);
    b.fence_receives();
  }
  for (int i = 1; i < size; ++i) b.unpack(data + start[i], o.receive.block(owner(i)));
}

// Ring: p - 1 steps, each passes on the block that was received last.
//
//   p = 4    0      1      2      3
//   start    A      B      C      D
//   step 0   DA     AB     BC     CD
//   step 1   CDA    DAB    ABC    BCD
//   step 2   BCDA   CDAB   DABC   ABCD
void allgather_ring(Builder& b, const Operands& o) {
  int rank = b.rank(), size = b.size();
  place_own_block(b, o);
  int left = (rank - 1 + size) % size, right = (rank + 1) % size;
  for (int s = 0; s < size - 1; ++s) {
    b.receive(o.receive.block((rank - s - 1 + size) % size), left);
    b.send(o.receive.block((rank - s + size) % size), right);
    b.fence_receives();
  }
}

// All ranks send to all at once: one round, p - 1 messages each, every block copied once.
void allgather_spread(Builder& b, const Operands& o) {
  int rank = b.rank(), size = b.size();
  Block own = o.in_place ? o.receive.block(rank) : o.send.whole();
  for (int i = 1; i < size; ++i) {
    int from = (rank - i + size) % size;
    b.receive(o.receive.block(from), from);
  }
  for (int i = 1; i < size; ++i) b.send(own, (rank + i) % size);
  place_own_block(b, o);
}

}  // namespace tern
