// Reductions to all processes (MPI 5.0, 6.9.6). `x op y` below: x is from the lower ranks.
#include <algorithm>
#include <utility>

#include "coll/algorithms.h"

namespace tern {

namespace {
// The ranks beyond a power of two give their values to a neighbour first and get the result from it at the end: of the
// first 2 * surplus ranks the even ones stand aside, the odd ones work for both. They are neighbours, so that order is
// kept.
struct Fold {
  explicit Fold(const Builder& b) : rank(b.rank()), power(floor_power_of_two(b.size())), surplus(b.size() - power) {
    aside = rank < 2 * surplus && !(rank & 1);
    number = rank < 2 * surplus ? rank / 2 : rank - surplus;
  }
  int real(int n) const { return n < surplus ? 2 * n + 1 : n + surplus; }
  /// The whole part of a rank that stands aside.
  void hand_over(Builder& b, const Operands& o) const {
    b.send(o.contribution(), o.receive.count, *o.receive.type, rank + 1);
    b.fence();  // in place the answer overwrites what was sent
    b.receive(o.receive.buffer, o.receive.count, *o.receive.type, rank + 1);
  }
  /// A rank that works for two reduces the other's vector into `value`; `arrived` has room for it.
  void take_over(Builder& b, std::byte* arrived, std::byte* value, Count count, const Datatype& type) const {
    if (rank >= 2 * surplus) return;
    b.receive(arrived, count, type, rank - 1);
    b.fence_receives();
    b.reduce(arrived, value, count, type);
  }
  int rank, power, surplus;
  bool aside;  ///< this rank only gives its values and takes the result
  int number;  ///< among the `power` ranks that work
};
}  // namespace

// Recursive doubling: log2 p rounds, partners exchange the whole vector; both compute the same in the same
// order.
//
//   p = 4   round 1: 0<->1 2<->3    01 01 23 23
//           round 2: 0<->2 1<->3    0123 everywhere
void allreduce_recursive_doubling(Builder& b, const Operands& o) {
  const Datatype& type = *o.receive.type;
  Count count = o.receive.count;
  bool commutative = o.op->commutative();
  Fold fold(b);
  if (fold.aside) return fold.hand_over(b, o);
  std::byte* value = o.receive.buffer;
  if (!o.in_place) b.copy(o.contribution(), value, count, type);
  if (b.size() == 1) return;
  std::byte* arrived = b.temporary(count, type);
  fold.take_over(b, arrived, value, count, type);
  for (int mask = 1; mask < fold.power; mask *= 2) {
    int partner = fold.real(fold.number ^ mask);
    b.receive(arrived, count, type, partner);
    b.send(value, count, type, partner);
    b.fence();
    if (commutative || partner < fold.rank) {
      b.reduce(arrived, value, count, type);
    } else {
      b.reduce(value, arrived, count, type);
      std::swap(value, arrived);
    }
  }
  if (value != o.receive.buffer) b.copy(value, o.receive.buffer, count, type);
  if (fold.rank < 2 * fold.surplus) b.send(o.receive.buffer, count, type, fold.rank - 1);
}

// Rabenseifner: reduce-scatter by recursive halving, allgather by recursive doubling the same way back.
//
//   p = 4    0     1     2     3
//   ^2       AB    AB    CD    CD      each keeps the half of its bit, reduced over 2
//   ^1       A     B     C     D       reduced over 4
//   ^1       AB    AB    CD    CD
//   ^2       ABCD  everywhere
void allreduce_rabenseifner(Builder& b, const Operands& o) {
  const Datatype& type = *o.receive.type;
  Count count = o.receive.count;
  Fold fold(b);
  if (fold.aside) return fold.hand_over(b, o);
  std::byte* value = o.receive.buffer;
  if (!o.in_place) b.copy(o.contribution(), value, count, type);
  if (b.size() == 1) return;
  // Halving needs room for half of the vector; reducing a neighbour's values needs room for all of it.
  std::byte* arrived = b.temporary(count, type);
  fold.take_over(b, arrived, value, count, type);
  auto begin = [&](int part) { return part_begin(count, part, fold.power); };
  auto at = [&](std::byte* buffer, int part) { return element(buffer, begin(part), type); };
  int low = 0;
  for (int mask = fold.power / 2; mask > 0; mask /= 2) {
    int middle = low + mask, partner = fold.real(fold.number ^ mask);
    bool upper = fold.number & mask;
    int give = upper ? low : middle, keep = upper ? middle : low;
    b.receive(at(arrived, keep), begin(keep + mask) - begin(keep), type, partner);
    b.send(at(value, give), begin(give + mask) - begin(give), type, partner);
    b.fence_receives();
    b.reduce(at(arrived, keep), at(value, keep), begin(keep + mask) - begin(keep), type);
    low = keep;
  }
  b.fence();  // the part that was sent is overwritten by its result
  for (int mask = 1; mask < fold.power; mask *= 2) {
    int partner = fold.real(fold.number ^ mask);
    int mine = fold.number & ~(mask - 1), theirs = mine ^ mask;
    b.receive(at(value, theirs), begin(theirs + mask) - begin(theirs), type, partner);
    b.send(at(value, mine), begin(mine + mask) - begin(mine), type, partner);
    b.fence_receives();
  }
  if (fold.rank < 2 * fold.surplus) b.send(value, count, type, fold.rank - 1);
}

// All ranks send their vectors to all at once, and each combines them all.
void allreduce_spread(Builder& b, const Operands& o) {
  const Count count = o.receive.count;
  combine_from_all(b, o, o.contribution(), count,
                   [&](int to) { b.send(o.contribution(), count, *o.receive.type, to); });
}

// Ring: p - 1 steps of reduce-scatter, p - 1 of allgather; every process sends and receives 2 (p - 1) / p of the
// vector, always to and from its neighbours.
//
//   p = 3      0         1         2          part x, reduced over ranks n..: x_n
//   start      abc       abc       abc
//   step 0     c_20      a_01      b_12       rank r sends part r, receives part r - 1
//   step 1     b_120     c_201     a_012      ... then the finished parts go round
void allreduce_ring(Builder& b, const Operands& o) {
  const Datatype& type = *o.receive.type;
  Count count = o.receive.count;
  int rank = b.rank(), size = b.size(), left = (rank - 1 + size) % size, right = (rank + 1) % size;
  auto begin = [&](int part) { return part_begin(count, part, size); };
  auto length = [&](int part) { return begin(part + 1) - begin(part); };
  std::byte* value = o.receive.buffer;
  if (!o.in_place) b.copy(o.contribution(), value, count, type);
  if (size == 1) return;
  std::byte* arrived = b.temporary((count + size - 1) / size, type);
  for (int s = 0; s < size - 1; ++s) {
    int out = (rank - s + size) % size, in = (rank - s - 1 + size) % size;
    b.receive(arrived, length(in), type, left);
    b.send(element(value, begin(out), type), length(out), type, right);
    b.fence_receives();
    b.reduce(arrived, element(value, begin(in), type), length(in), type);
  }
  b.fence();
  for (int s = 0; s < size - 1; ++s) {
    int out = (rank + 1 - s + size) % size, in = (rank - s + size) % size;
    b.receive(element(value, begin(in), type), length(in), type, left);
    b.send(element(value, begin(out), type), length(out), type, right);
    b.fence_receives();
  }
}

// Reduce to rank 0, broadcast from it. The order of operands is kept for operators that want it.
void allreduce_reduce_bcast(Builder& b, const Operands& o) {
  Operands half = o;
  half.root = 0;
  reduce_binomial(b, half);
  b.fence();
  bcast_binomial(b, half);
}

}  // namespace tern
