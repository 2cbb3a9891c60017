// Alltoalls (MPI 5.0, 6.8). In place, the outgoing data are first packed aside; then there is only one
// case.
#include <algorithm>
#include <cstring>

#include "coll/algorithms.h"

namespace tern {

namespace {
// The outgoing blocks: the user's, or packed copies of what the receive buffer holds (in place).
class Outgoing {
 public:
  Outgoing(Builder& b, const Operands& o) : b_(b), o_(o) {
    if (!o.in_place) return;
    size_t total = 0;
    for (int i = 0; i < b.size(); ++i) total += o.receive.block(i).bytes();
    packed_ = b.temporary(total);
    starts_ = static_cast<size_t*>(static_cast<void*>(b.temporary(sizeof(size_t) * size_t(b.size() + 1))));
    if (!starts_) return;
    starts_[0] = 0;
    for (int i = 0; i < b.size(); ++i) {
      Block block = o.receive.block(i);
      starts_[i + 1] = starts_[i] + block.bytes();
      if (i != b.rank()) b.pack(block, packed_ + starts_[i]);
    }
  }
  void send(int to) const {
    if (!o_.in_place) {
      b_.send(o_.send.block(to), to);
    } else if (starts_) {
      b_.send_bytes(packed_ + starts_[to], starts_[to + 1] - starts_[to], to);
    }
  }
  void keep_own() const {
    if (!o_.in_place) b_.copy(o_.send.block(b_.rank()), o_.receive.block(b_.rank()));
  }

 private:
  Builder& b_;
  const Operands& o_;
  std::byte* packed_ = nullptr;
  size_t* starts_ = nullptr;
};
}  // namespace

// Bruck et al. 1997: ceil(log2 p) rounds; the binary digits of its distance decide in which rounds a block travels.
//
//   p = 4, rank 0: slot i starts as the block for rank + i:   0>0  0>1  0>2  0>3
//   round 1: slots with bit 0 (1, 3) go to rank + 1           0>0  3>0  0>2  3>2
//   round 2: slots with bit 1 (2, 3) go to rank + 2           0>0  3>0  2>0  1>0
//   slot i now holds the block from rank - i
void alltoall_bruck(Builder& b, const Operands& o) {
  int rank = b.rank(), size = b.size();
  size_t bytes = o.receive.block(0).bytes();
  std::byte* slots = b.temporary(bytes * size_t(size));
  std::byte* out = b.temporary(bytes * size_t((size + 1) / 2));
  std::byte* in = b.temporary(bytes * size_t((size + 1) / 2));
  const Side& source = o.in_place ? o.receive : o.send;
  for (int i = 0; i < size; ++i) b.pack(source.block((rank + i) % size), slots + bytes * size_t(i));
  // Slots with the bit set come in runs of `distance`.
  auto for_each_run = [&](int distance, auto&& act) {
    size_t at = 0;
    for (int first = distance; first < size; first += 2 * distance) {
      size_t run = bytes * size_t(std::min(distance, size - first));
      act(slots + bytes * size_t(first), at, run);
      at += run;
    }
    return at;
  };
  for (int distance = 1; distance < size; distance *= 2) {
    size_t total =
        for_each_run(distance, [&](std::byte* slot, size_t at, size_t run) { b.copy_bytes(slot, out + at, run); });
    b.receive_bytes(in, total, (rank - distance + size) % size);
    b.send_bytes(out, total, (rank + distance) % size);
    b.fence();
    for_each_run(distance, [&](std::byte* slot, size_t at, size_t run) { b.copy_bytes(in + at, slot, run); });
  }
  for (int i = 0; i < size; ++i) b.unpack(slots + bytes * size_t(i), o.receive.block((rank - i + size) % size));
}

// p - 1 steps; in each, every process sends to one and receives from one: no process is flooded.
//
//   step s: rank -> rank + s, rank - s -> rank
void alltoall_pairwise(Builder& b, const Operands& o) {
  int rank = b.rank(), size = b.size();
  Outgoing outgoing(b, o);
  outgoing.keep_own();
  for (int s = 1; s < size; ++s) {
    int from = (rank - s + size) % size;
    b.receive(o.receive.block(from), from);
    outgoing.send((rank + s) % size);
    b.fence();
  }
}

// All at once, in batches so that a large job does not post thousands of receives; each rank starts with its
// neighbour.
void alltoall_spread(Builder& b, const Operands& o) {
  constexpr int kBatch = 32;  // messages each way: a full batch of 8 KiB blocks is 256 KiB, the eager credit's quarter
  int rank = b.rank(), size = b.size();
  Outgoing outgoing(b, o);
  for (int first = 1; first < size; first += kBatch) {
    int last = std::min(size, first + kBatch);
    for (int s = first; s < last; ++s) {
      int from = (rank - s + size) % size;
      b.receive(o.receive.block(from), from);
    }
    for (int s = first; s < last; ++s) outgoing.send((rank + s) % size);
    if (last != size) b.fence();
  }
  outgoing.keep_own();
}

}  // namespace tern
