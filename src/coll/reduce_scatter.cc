// Reduce-scatters (MPI 5.0, 6.10): block i of the reduced vector goes to rank i. The blocks are neighbours in the
// vector; receive.counts gives their lengths (a uniform receive side: all the same).
#include <algorithm>
#include <utility>

#include "coll/algorithms.h"

namespace tern {

namespace {
// Beginnings of the blocks in the vector.
class Parts {
 public:
  Parts(Builder& b, const Operands& o) : type_(*o.receive.type) {
    begins_ = static_cast<Count*>(static_cast<void*>(b.temporary(sizeof(Count) * size_t(b.size() + 1))));
    if (!begins_) return;
    begins_[0] = 0;
    for (int i = 0; i < b.size(); ++i)
      begins_[i + 1] = begins_[i] + (o.receive.shape == Side::Shape::uniform ? o.receive.count : o.receive.counts[i]);
  }
  explicit operator bool() const { return begins_ != nullptr; }
  Count begin(int i) const { return begins_[i]; }
  Count length(int i) const { return begins_[i + 1] - begins_[i]; }
  std::byte* at(std::byte* vector, int i) const { return element(vector, begins_[i], type_); }
  const std::byte* at(const std::byte* vector, int i) const { return element(vector, begins_[i], type_); }

 private:
  const Datatype& type_;
  Count* begins_;
};
}  // namespace

// Recursive halving, for commutative operators: log2 p rounds. The surplus over a power of two folds in first: of the
// first 2 * surplus ranks the odd ones take over their left neighbours' vectors and blocks.
//
//   p = 4      0     1     2     3
//   ^2         AB    AB    CD    CD       send the other half, reduce the own
//   ^1         A     B     C     D
void reduce_scatter_halving(Builder& b, const Operands& o) {
  const Datatype& type = *o.receive.type;
  int rank = b.rank(), power = floor_power_of_two(b.size()), surplus = b.size() - power;
  Parts parts(b, o);
  if (!parts) return;
  Count total = parts.begin(b.size());
  bool aside = rank < 2 * surplus && !(rank & 1);
  if (aside) {
    b.send(o.contribution(), total, type, rank + 1);
    b.fence();
    b.receive(o.receive.buffer, parts.length(rank), type, rank + 1);
    return;
  }
  std::byte* value = b.temporary(total, type);
  std::byte* arrived = b.temporary(total, type);
  b.copy(o.contribution(), value, total, type);
  if (rank < 2 * surplus) {
    b.receive(arrived, total, type, rank - 1);
    b.fence_receives();
    b.reduce(arrived, value, total, type);
  }
  int number = rank < 2 * surplus ? rank / 2 : rank - surplus;
  auto real = [&](int n) { return n < surplus ? 2 * n + 1 : n + surplus; };
  // First rank whose block belongs to number n or a later one.
  auto first = [&](int n) { return n < surplus ? 2 * n : n + surplus; };
  int low = 0;
  for (int mask = power / 2; mask > 0; mask /= 2) {
    int middle = low + mask, partner = real(number ^ mask);
    bool upper = number & mask;
    int give = upper ? low : middle, keep = upper ? middle : low;
    Count keep_length = parts.begin(first(keep + mask)) - parts.begin(first(keep));
    Count give_length = parts.begin(first(give + mask)) - parts.begin(first(give));
    b.receive(parts.at(arrived, first(keep)), keep_length, type, partner);
    b.send(parts.at(value, first(give)), give_length, type, partner);
    b.fence_receives();
    b.reduce(parts.at(arrived, first(keep)), parts.at(value, first(keep)), keep_length, type);
    low = keep;
  }
  if (rank < 2 * surplus) b.send(parts.at(value, rank - 1), parts.length(rank - 1), type, rank - 1);
  b.fence();  // in place, what is still being sent would be overwritten
  b.copy(parts.at(value, rank), o.receive.buffer, parts.length(rank), type);
}

// For any operator and long vectors: each block goes directly to its owner, which combines from its own rank outwards,
// so that order is kept. Needs memory for at most three blocks.
//
//   step s: rank <-> rank + s, rank <-> rank - s, where there is such a rank; each gets the other's block of its vector
//   p = 4, rank 1     start B     s=1  A(B C)     s=2  (ABC) D
void reduce_scatter_pairwise(Builder& b, const Operands& o) {
  const Datatype& type = *o.receive.type;
  const int rank = b.rank(), size = b.size();
  Parts parts(b, o);
  if (!parts) return;
  const Count mine = parts.length(rank);
  const bool commutative = o.op->commutative();
  const std::byte* own = parts.at(o.contribution(), rank);
  // In place the result would overwrite what has yet to be sent.
  std::byte* spare[3] = {o.in_place ? nullptr : o.receive.buffer, nullptr, nullptr};
  int spares = o.in_place ? 0 : 1, made = spares;
  auto take = [&] {
    if (spares != 0) return std::exchange(spare[--spares], nullptr);
    ++made;
    TERN_ASSERT(made <= 3);
    return b.temporary(mine, type);
  };
  std::byte* value = nullptr;  // combined so far; null: only the own block, in its place
  for (int s = 1; rank - s >= 0 || rank + s < size; ++s) {
    std::byte *above = nullptr, *below = nullptr;
    if (rank + s < size) b.receive(above = take(), mine, type, rank + s);
    if (rank - s >= 0) b.receive(below = take(), mine, type, rank - s);
    if (rank + s < size) b.send(parts.at(o.contribution(), rank + s), parts.length(rank + s), type, rank + s);
    if (rank - s >= 0) b.send(parts.at(o.contribution(), rank - s), parts.length(rank - s), type, rank - s);
    b.fence();
    if (above) {
      b.reduce(value ? value : own, above, mine, type);
      if (value) spare[spares++] = value;
      value = above;
    }
    if (below && !value && commutative) {
      b.reduce(own, below, mine, type);
      value = below;
    } else if (below) {
      if (!value) b.copy(own, value = take(), mine, type);
      b.reduce(below, value, mine, type);
      spare[spares++] = below;
    }
  }
  if (!value) value = const_cast<std::byte*>(own);
  if (value != o.receive.buffer) b.copy(value, o.receive.buffer, mine, type);
}

// All ranks send to all at once, and each combines what has come for its block.
//
//   p = 3, rank 1     A1 from 0, C1 from 2      (A1 B1) C1
void reduce_scatter_spread(Builder& b, const Operands& o) {
  const Parts parts(b, o);
  if (!parts) return;
  auto part = [&](int rank) { return parts.at(o.contribution(), rank); };
  combine_from_all(b, o, part(b.rank()), parts.length(b.rank()),
                   [&](int to) { b.send(part(to), parts.length(to), *o.receive.type, to); });
}

// Reduce to rank 0 in the order of ranks, then scatter: for any operator and short vectors.
void reduce_scatter_by_root(Builder& b, const Operands& o) {
  const Datatype& type = *o.receive.type;
  int rank = b.rank(), size = b.size();
  Parts parts(b, o);
  if (!parts) return;
  Operands whole = o;
  whole.root = 0;
  whole.in_place = false;
  whole.send.buffer = const_cast<std::byte*>(o.contribution());
  whole.receive.count = parts.begin(size);
  whole.receive.buffer = rank == 0 ? b.temporary(parts.begin(size), type) : nullptr;
  reduce_binomial(b, whole);
  b.fence();
  if (rank != 0) {
    b.receive(o.receive.buffer, parts.length(rank), type, 0);
    return;
  }
  for (int i = 1; i < size; ++i) b.send(parts.at(whole.receive.buffer, i), parts.length(i), type, i);
  b.copy(whole.receive.buffer, o.receive.buffer, parts.length(0), type);
}

}  // namespace tern
