// Reductions to one process (MPI 5.0, 6.9.1). `x op y` below: x is from the lower ranks.
#include <algorithm>
#include <utility>

#include "coll/algorithms.h"

namespace tern {

std::byte* Builder::temporary(Count count, const Datatype& type) {
  if (count == 0) return schedule_.allocate(0);
  Count span = (count - 1) * type.extent();
  Count low = std::min<Count>(0, span) + type.true_lower_bound();
  Count high = std::max<Count>(0, span) + type.true_lower_bound() + type.true_extent();
  // Elements are aligned relative to the buffer argument, not to their first byte.
  Count before = low < 0 ? (-low + 63) / 64 * 64 : 0;
  std::byte* memory = schedule_.allocate(size_t(before + std::max<Count>(high, 0)));
  return memory ? memory + before : nullptr;
}

// A binomial tree. With a commutative operator ranks count from the root; else from rank 0, so that what a process
// receives is always from the ranks right after its own, and rank 0 hands the result to the root.
//
//   1 -> 0   3 -> 2   5 -> 4   7 -> 6        01 23 45 67
//   2 -> 0            6 -> 4                 0123 4567
//   4 -> 0                                   01234567
void reduce_binomial(Builder& b, const Operands& o) {
  int rank = b.rank(), size = b.size();
  const Datatype& type = *o.receive.type;
  Count count = o.receive.count;
  bool commutative = o.op->commutative();
  int top = commutative ? o.root : 0;
  int rel = (rank - top + size) % size;
  bool result_here = rank == o.root;
  bool inner = !(rel & 1) && rel + 1 < size;

  const std::byte* value = o.contribution();
  std::byte* spare[2] = {nullptr, nullptr};
  bool in_receive_buffer = o.in_place && result_here;
  if (inner) {
    spare[0] = result_here && !in_receive_buffer ? o.receive.buffer : b.temporary(count, type);
    // With three or more values a second buffer is needed.
    if (in_receive_buffer) {
      spare[1] = o.receive.buffer;
    } else if (!(rel & 2) && rel + 2 < size) {
      spare[1] = b.temporary(count, type);
    }
  }
  int mask = 1;
  for (; mask < size && !(rel & mask); mask *= 2) {
    int child = rel | mask;
    if (child >= size) continue;
    std::byte* arrived = value == spare[0] ? spare[1] : spare[0];
    b.receive(arrived, count, type, (child + top) % size);
    b.fence_receives();
    if (commutative && (value != o.contribution() || in_receive_buffer)) {
      b.reduce(arrived, const_cast<std::byte*>(value), count, type);
    } else {
      b.reduce(value, arrived, count, type);
      value = arrived;
    }
  }
  if (rel != 0) {
    b.send(value, count, type, (rel - mask + top) % size);
    if (result_here) {  // not commutative: from rank 0
      b.fence();
      b.receive(o.receive.buffer, count, type, 0);
    }
  } else if (!result_here) {
    b.send(value, count, type, o.root);
  } else if (value != o.receive.buffer) {
    b.copy(value, o.receive.buffer, count, type);
  }
}

// Rabenseifner: reduce-scatter by recursive halving, then gather to the root; every process works on count elements in
// all instead of count * log2 p. For commutative operators. Ranks from the root; the surplus over a power of two folds
// in first (odd to even), so that the root stays.
//
//   p = 4       0        1        2        3
//   halve       AB..     ..CD?    exchange with rank ^ 2, keep the half of one's bit
//   halve       A        B        C        D
//   gather      AB <- B           CD <- D
//               ABCD <- CD
void reduce_rabenseifner(Builder& b, const Operands& o) {
  int size = b.size(), rel = (b.rank() - o.root + size) % size;
  const Datatype& type = *o.receive.type;
  Count count = o.receive.count;
  int power = floor_power_of_two(size), surplus = size - power;
  auto real = [&](int number) { return ((number < surplus ? 2 * number : number + surplus) + o.root) % size; };
  if (rel < 2 * surplus && (rel & 1)) {
    b.send(o.contribution(), count, type, (b.rank() - 1 + size) % size);
    return;
  }
  std::byte* value = rel == 0 ? o.receive.buffer : b.temporary(count, type);
  std::byte* arrived = b.temporary(count, type);
  if (value != o.contribution()) b.copy(o.contribution(), value, count, type);
  int number = rel - surplus;
  if (rel < 2 * surplus) {
    b.receive(arrived, count, type, (b.rank() + 1) % size);
    b.fence_receives();
    b.reduce(arrived, value, count, type);
    number = rel / 2;
  }
  auto begin = [&](int part) { return part_begin(count, part, power); };
  auto at = [&](std::byte* buffer, int part) { return element(buffer, begin(part), type); };
  int low = 0, high = power;
  for (int mask = power / 2; mask > 0; mask /= 2) {
    int middle = low + mask, partner = real(number ^ mask);
    bool upper = number & mask;
    int give = upper ? low : middle, keep = upper ? middle : low;
    b.receive(at(arrived, keep), begin(keep + mask) - begin(keep), type, partner);
    b.send(at(value, give), begin(give + mask) - begin(give), type, partner);
    b.fence_receives();
    b.reduce(at(arrived, keep), at(value, keep), begin(keep + mask) - begin(keep), type);
    low = keep;
    high = keep + mask;
  }
  // What is received now may overwrite what was sent above.
  b.fence();
  for (int mask = 1; mask < power; mask *= 2) {
    if (number & mask) {
      b.fence_receives();
      b.send(at(value, low), begin(high) - begin(low), type, real(number ^ mask));
      return;
    }
    b.receive(at(value, high), begin(high + mask) - begin(high), type, real(number ^ mask));
    high += mask;
  }
}

// A pipeline along the chain ... -> root + 2 -> root + 1 -> root, for commutative operators and long vectors: each
// process combines a part with its own while the next part comes in.
void reduce_chain(Builder& b, const Operands& o) {
  int size = b.size(), rel = (b.rank() - o.root + size) % size;
  const Datatype& type = *o.receive.type;
  Count count = o.receive.count;
  Count part = std::max<Count>(
      {1, Count(kPartBytes) / std::max<Count>(1, type.size()), (count + Count(kMaxParts) - 1) / Count(kMaxParts)});
  int next = (b.rank() - 1 + size) % size, previous = (b.rank() + 1) % size;
  auto length = [&](Count at) { return std::min(part, count - at); };
  if (rel + 1 == size) {
    for (Count at = 0; at < count && size > 1; at += part) {
      b.send(element(o.contribution(), at, type), length(at), type, next);
    }
    if (size == 1 && !o.in_place) b.copy(o.contribution(), o.receive.buffer, count, type);
    return;
  }
  std::byte* value = rel == 0 ? o.receive.buffer : b.temporary(count, type);
  bool own_in_place = value == o.contribution();
  std::byte* arrived = own_in_place ? b.temporary(count, type) : value;
  auto receive = [&](Count at) {
    if (at < count) b.receive(element(arrived, at, type), length(at), type, previous);
  };
  receive(0);
  for (Count at = 0; at < count; at += part) {
    b.fence_receives();
    receive(at + part);
    if (own_in_place) {
      b.reduce(element(arrived, at, type), element(value, at, type), length(at), type);
    } else {
      b.reduce(element(o.contribution(), at, type), element(value, at, type), length(at), type);
    }
    if (rel != 0) b.send(element(value, at, type), length(at), type, next);
  }
}

}  // namespace tern
