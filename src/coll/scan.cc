// Prefix reductions (MPI 5.0, 6.11). All keep the order of ranks, so they serve every operator.
#include <utility>

#include "coll/algorithms.h"

namespace tern {

namespace {
// Recursive doubling. `partial` is the value of this rank's group of 2^k ranks, the result that of its ranks up to this
// one (scan) or before it (exscan: empty until the first lower partner).
//
//   p = 4 (scan)   0        1        2        3
//   start          0|0      1|1      2|2      3|3         result | partial
//   0<->1 2<->3    0|01     01|01    2|23     23|23
//   0<->2 1<->3    0|0123   01|..    012|..   0123|..
void recursive_doubling(Builder& b, const Operands& o, bool exclusive) {
  const Datatype& type = *o.receive.type;
  Count count = o.receive.count;
  int rank = b.rank(), size = b.size();
  bool commutative = o.op->commutative();
  std::byte* result = o.receive.buffer;
  if (size == 1) {
    if (!exclusive && !o.in_place) b.copy(o.contribution(), result, count, type);
    return;
  }
  std::byte* partial = b.temporary(count, type);
  std::byte* arrived = b.temporary(count, type);
  b.copy(o.contribution(), partial, count, type);
  if (!exclusive && !o.in_place) b.copy(o.contribution(), result, count, type);
  bool have_result = !exclusive;
  for (int mask = 1; mask < size; mask *= 2) {
    int partner = rank ^ mask;
    if (partner >= size) continue;
    b.receive(arrived, count, type, partner);
    b.send(partial, count, type, partner);
    b.fence();
    if (partner < rank) {
      b.reduce(arrived, partial, count, type);
      if (have_result) {
        b.reduce(arrived, result, count, type);
      } else {
        b.copy(arrived, result, count, type);
        have_result = true;
      }
    } else if (commutative) {
      b.reduce(arrived, partial, count, type);
    } else {
      b.reduce(partial, arrived, count, type);
      std::swap(partial, arrived);
    }
  }
}

// Up and down a tree laid over the ranks (Brent, Kung 1982): 2 log2 p rounds one after the other, but only 2 p messages
// in all.
//
//   p = 8    up 1    0->1       2->3       4->5       6->7
//            up 2        1->3                  5->7
//            up 4               3->7
//            down 2             3->5
//            down 1      1->2       3->4       5->6
void tree(Builder& b, const Operands& o, std::byte* value) {
  const Datatype& type = *o.receive.type;
  Count count = o.receive.count;
  int size = b.size(), end = b.rank() + 1;  // the value must cover the ranks before `end`
  if (size == 1) return;
  std::byte* arrived = b.temporary(count, type);
  auto take = [&](int mask) {
    b.receive(arrived, count, type, b.rank() - mask);
    b.fence();  // the value may still be in a send
    b.reduce(arrived, value, count, type);
  };
  int top = 1;
  for (; top < size; top *= 2) {
    if (end % (2 * top) == 0) {
      take(top);
    } else if (end % (2 * top) == top && end + top <= size) {
      b.send(value, count, type, b.rank() + top);
    }
  }
  for (int mask = top / 2; mask > 0; mask /= 2) {
    if (end % (2 * mask) == 0) {
      if (end + mask <= size) b.send(value, count, type, b.rank() + mask);
    } else if (end % (2 * mask) == mask && end > mask) {
      take(mask);
    }
  }
}

// From rank to rank: p - 1 messages, one after the other.
void linear(Builder& b, const Operands& o, bool exclusive) {
  const Datatype& type = *o.receive.type;
  const Count count = o.receive.count;
  const bool first = b.rank() == 0, last = b.rank() + 1 == b.size();
  if (first && exclusive) {  // nobody is before it: what the next rank gets is what it has
    if (!last) b.send(o.contribution(), count, type, 1);
    return;
  }
  std::byte* value = exclusive && !last ? b.temporary(count, type) : o.receive.buffer;  // with this rank's own
  if (exclusive ? !last : !o.in_place) b.copy(o.contribution(), value, count, type);
  if (!first) {
    std::byte* before = exclusive ? o.receive.buffer : b.temporary(count, type);
    if (exclusive && o.in_place) b.fence();  // the buffer has been copied
    b.receive(before, count, type, b.rank() - 1);
    b.fence();
    if (value != before) b.reduce(before, value, count, type);
  }
  if (!last) b.send(value, count, type, b.rank() + 1);
}
}  // namespace

void scan_linear(Builder& b, const Operands& o) { linear(b, o, false); }
void exscan_linear(Builder& b, const Operands& o) { linear(b, o, true); }

void scan_recursive_doubling(Builder& b, const Operands& o) { recursive_doubling(b, o, false); }
void exscan_recursive_doubling(Builder& b, const Operands& o) { recursive_doubling(b, o, true); }

void scan_tree(Builder& b, const Operands& o) {
  if (!o.in_place) b.copy(o.contribution(), o.receive.buffer, o.receive.count, *o.receive.type);
  tree(b, o, o.receive.buffer);
}

// The inclusive prefix of every rank, passed to the next rank.
void exscan_tree(Builder& b, const Operands& o) {
  const Datatype& type = *o.receive.type;
  Count count = o.receive.count;
  if (b.size() == 1) return;
  std::byte* value = b.temporary(count, type);
  b.copy(o.contribution(), value, count, type);
  tree(b, o, value);
  if (b.rank() > 0) b.receive(o.receive.buffer, count, type, b.rank() - 1);
  if (b.rank() + 1 < b.size()) b.send(value, count, type, b.rank() + 1);
}

}  // namespace tern
