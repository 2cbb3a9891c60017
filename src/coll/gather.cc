// Gathers and scatters (MPI 5.0, 6.5 and 6.6). Ranks in drawings are relative to the root.
#include <algorithm>

#include "coll/algorithms.h"

namespace tern {

namespace {

// Ranks of the subtree below `rel` in a binomial tree: rel .. rel + n - 1.
int subtree(int rel, int size) {
  if (rel == 0) return size;
  return std::min(rel & -rel, size - rel);
}
}  // namespace

// Up a binomial tree; blocks of a subtree are neighbours.
//
//   1 -> 0 (B)   3 -> 2 (D)   5 -> 4 (F)
//   2 -> 0 (CD)               (6, 7 absent)
//   4 -> 0 (EF)
void gather_binomial(Builder& b, const Operands& o) {
  int size = b.size(), rel = relative_rank(b, o.root);
  if (rel != 0) {
    Block own = o.send.whole();
    size_t bytes = own.bytes();
    int below = subtree(rel, size), parent = absolute_rank(b, o.root, rel - (rel & -rel));
    if (below == 1) {
      b.send(own, parent);
      return;
    }
    std::byte* data = b.temporary(bytes * size_t(below));
    b.pack(own, data);
    for (int mask = 1; mask < below; mask *= 2) {
      int child = rel + mask;
      b.receive_bytes(data + bytes * size_t(mask), bytes * size_t(subtree(child, size)),
                      absolute_rank(b, o.root, child));
    }
    b.fence_receives();
    b.send_bytes(data, bytes * size_t(below), parent);
    return;
  }
  if (!o.in_place) b.copy(o.send.whole(), o.receive.block(o.root));
  size_t bytes = o.receive.block(0).bytes();
  // Subtrees that do not wrap round the last rank are received in place; the one that may wrap is unpacked
  // afterwards.
  std::byte* wrapped = nullptr;
  int wrapped_child = 0;
  for (int mask = 1; mask < size; mask *= 2) {
    int below = subtree(mask, size), first = absolute_rank(b, o.root, mask);
    if (first + below <= size) {
      b.receive(o.receive.blocks(first, below), first);
    } else {
      wrapped = b.temporary(bytes * size_t(below));
      wrapped_child = mask;
      b.receive_bytes(wrapped, bytes * size_t(below), first);
    }
  }
  if (!wrapped) return;
  b.fence_receives();
  int below = subtree(wrapped_child, size), first = absolute_rank(b, o.root, wrapped_child), before = size - first;
  b.unpack(wrapped, o.receive.blocks(first, before));
  b.unpack(wrapped + bytes * size_t(before), o.receive.blocks(0, below - before));
}

// All ranks send to the root.
void gather_linear(Builder& b, const Operands& o) {
  if (b.rank() != o.root) {
    b.send(o.send.buffer, o.send.count, *o.send.type, o.root);
    return;
  }
  for (int i = 0; i < b.size(); ++i) {
    if (i != o.root) b.receive(o.receive.block(i), i);
  }
  if (!o.in_place) b.copy(o.send.whole(), o.receive.block(o.root));
}

// Down a binomial tree: the mirror image of gather_binomial.
void scatter_binomial(Builder& b, const Operands& o) {
  int size = b.size(), rel = relative_rank(b, o.root);
  if (rel != 0) {
    Block own = o.receive.whole();
    size_t bytes = own.bytes();
    int below = subtree(rel, size), parent = absolute_rank(b, o.root, rel - (rel & -rel));
    if (below == 1) {
      b.receive(own, parent);
      return;
    }
    std::byte* data = b.temporary(bytes * size_t(below));
    b.receive_bytes(data, bytes * size_t(below), parent);
    b.fence_receives();
    for (int mask = floor_power_of_two(below - 1); mask > 0; mask /= 2) {
      int child = rel + mask;
      b.send_bytes(data + bytes * size_t(mask), bytes * size_t(subtree(child, size)), absolute_rank(b, o.root, child));
    }
    b.unpack(data, own);
    return;
  }
  for (int mask = size > 1 ? floor_power_of_two(size - 1) : 0; mask > 0; mask /= 2) {
    int below = subtree(mask, size), first = absolute_rank(b, o.root, mask);
    if (first + below <= size) {
      b.send(o.send.blocks(first, below), first);
      continue;
    }
    size_t bytes = o.send.block(0).bytes();
    int before = size - first;
    std::byte* wrapped = b.temporary(bytes * size_t(below));
    b.pack(o.send.blocks(first, before), wrapped);
    b.pack(o.send.blocks(0, below - before), wrapped + bytes * size_t(before));
    b.send_bytes(wrapped, bytes * size_t(below), first);
  }
  if (!o.in_place) b.copy(o.send.block(o.root), o.receive.whole());
}

// The root sends to all.
void scatter_linear(Builder& b, const Operands& o) {
  if (b.rank() != o.root) {
    b.receive(o.receive.buffer, o.receive.count, *o.receive.type, o.root);
    return;
  }
  for (int i = 0; i < b.size(); ++i) {
    if (i != o.root) b.send(o.send.block(i), i);
  }
  if (!o.in_place) b.copy(o.send.block(o.root), o.receive.whole());
}

}  // namespace tern
