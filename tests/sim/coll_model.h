// A collective operation drawn from a seed, what every process brings to it, and what must come out, computed naively.
// Data come in units of 8 bytes (two 32-bit words), held by several datatypes: plain ints, pairs, pairs with gaps and a
// negative lower bound, pairs whose words lie in memory the other way round. A receive buffer is compared whole, gaps
// and margins included.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "coll/collectives.h"
#include "coll/select.h"
#include "datatype/construct.h"
#include "datatype/predefined.h"

namespace tern::sim {

using Bytes = std::vector<std::byte>;
inline constexpr size_t kUnit = 8;

/// The datatypes of one rank.
struct ModelTypes {
  ModelTypes() {
    Datatype& integer = types.get(type_id::kInt);
    made.push_back(Ref<Datatype>::share(&integer));
    made.emplace_back();
    EXPECT_FALSE(construct::contiguous(2, integer, made.back()));
    Ref<Datatype> gaps;
    EXPECT_FALSE(construct::vector(2, 1, 3, integer, gaps));
    made.emplace_back();
    EXPECT_FALSE(construct::resized(-4, 24, *gaps, made.back()));
    Count ones[2] = {1, 1}, reversed[2] = {8, 0};
    made.emplace_back();
    EXPECT_FALSE(construct::hindexed(ones, reversed, integer, made.back()));
    for (auto& type : made) type->commit();
  }
  PredefinedTypes types;
  PredefinedOps ops;
  std::vector<Ref<Datatype>> made;
  const Datatype& operator[](int i) const { return *made[size_t(i)]; }
  /// Elements of type `i` that make `units`.
  static Count elements(int i, Count units) { return i == 0 ? 2 * units : units; }
};

/// Memory for blocks of one side, filled with a pattern.
struct Memory {
  void reserve(size_t bytes) {
    data.resize(bytes + 512);
    const size_t first = std::min<size_t>(data.size(), 256);  // the pattern's period
    for (size_t i = 0; i < first; ++i) data[i] = std::byte(i * 37 + 11);
    for (size_t i = first; i < data.size(); i += first)
      std::memcpy(data.data() + i, data.data(), std::min(first, data.size() - i));
  }
  std::byte* base() { return data.data() + 256; }
  Bytes data;
};

struct Plan {
  Plan(uint64_t seed_, Operation operation_, int ranks_) : seed(seed_), operation(operation_), ranks(ranks_) {
    Rng rng(seed * 77 + uint64_t(operation));
    constexpr Count kCounts[] = {0, 1, 2, 3, 7, 16, 100, 511, 5000};
    count = kCounts[rng.below(9)];
    // Several parts of the pipelines (64 KiB each).
    if (rng.chance(1, 12)) count = 30000;
    in_place = rng.chance(1, 3);
    commutative = rng.chance(1, 2);
    reduction_type = int(rng.below(4));
    if (reduction_type == 0) commutative = true;  // MPI_SUM on ints
    root = int(rng.below(uint64_t(ranks)));
    wide = rng.chance(1, 2);
  }
  void make_inter(int left_) {
    left = left_;
    in_place = false;
    Rng rng(seed * 91 + 5);
    root_left = rng.chance(1, 2);
    root = int(rng.below(uint64_t(root_left ? left : ranks - left)));
  }
  bool inter() const { return left != 0; }
  bool reduces() const {
    return operation == Operation::reduce || operation == Operation::allreduce ||
           operation == Operation::reduce_scatter || operation == Operation::reduce_scatter_block ||
           operation == Operation::scan || operation == Operation::exscan;
  }
  /// Units that process `from` has for process `to` (world ranks) in operations with counts for each.
  Count units(int from, int to) const {
    Rng rng(seed ^ (uint64_t(from) * 1000003 + uint64_t(to) * 7919 + 17));
    return rng.chance(1, 4) ? 0 : Count(rng.below(uint64_t(count) + 1));
  }
  uint64_t seed;
  Operation operation;
  int ranks, left = 0;
  Count count;
  bool in_place, commutative, wide, root_left = true;
  int root, reduction_type;
};

/// What `from` tells `to`; for operations where all hear the same, `to` is 0.
inline Bytes stream(int from, int to, Count units) {
  Bytes bytes(size_t(units) * kUnit);
  Rng rng(uint64_t(from) * 4099 + uint64_t(to) + 12345);
  for (Count i = 0; i < 2 * units; ++i) {
    uint32_t word = uint32_t(rng.next()) & 0xffff;
    std::memcpy(bytes.data() + i * 4, &word, 4);
  }
  return bytes;
}

/// left op right, unit by unit: sums, or the composition of x -> a x + b (associative, not commutative).
inline void combine(const std::byte* left, std::byte* right, Count units, bool commutative) {
  for (Count i = 0; i < units; ++i) {
    uint32_t l[2], r[2];
    std::memcpy(l, left + i * Count(kUnit), kUnit);
    std::memcpy(r, right + i * Count(kUnit), kUnit);
    uint32_t out[2] = {l[0] + r[0], l[1] + r[1]};
    if (!commutative) {
      out[0] = l[0] * r[0];
      out[1] = l[0] * r[1] + l[1];
    }
    std::memcpy(right + i * Count(kUnit), out, kUnit);
  }
}

/// -1: `data` begins with `expected`.
inline Count first_difference(const Bytes& expected, const Bytes& data) {
  if (expected.empty() || std::memcmp(expected.data(), data.data(), expected.size()) == 0) return -1;
  return std::mismatch(expected.begin(), expected.end(), data.begin()).first - expected.begin();
}

/// One process's part in a plan. `me` is its rank in the world; on an intercommunicator the first `left` are
/// one group.
class Participant {
 public:
  Participant(const Plan& plan, int me, ModelTypes& types)
      : plan_(plan), me_(me), types_(types), rng_(plan.seed * 31 + uint64_t(me)) {
    bool in_left = me < plan.left;
    group_first_ = plan.inter() && !in_left ? plan.left : 0;
    group_size_ = !plan.inter() ? plan.ranks : in_left ? plan.left : plan.ranks - plan.left;
    peer_first_ = !plan.inter() ? 0 : in_left ? plan.left : 0;
    peer_size_ = plan.inter() ? plan.ranks - group_size_ : plan.ranks;
    fill();
  }

  Operands operands() {
    Operands o = operands_;
    o.send.buffer = send_.base();
    o.receive.buffer = receive_.base();
    return o;
  }
  /// As before the operation.
  void reset() {
    send_.data = send_before_;
    receive_.data = receive_before_;
  }
  /// Empty: all is as it must be.
  std::string check() const {
    if (const Count at = first_difference(expected_, receive_.data); at >= 0)
      return "rank " + std::to_string(me_) + ": receive buffer differs at byte " + std::to_string(at - 256);
    if (const Count at = first_difference(send_before_, send_.data); at >= 0)
      return "rank " + std::to_string(me_) + ": send buffer changed at byte " + std::to_string(at - 256);
    return {};
  }

 private:
  enum class Who { receive, send };
  void uniform(Side& side, Memory& memory, int type, Count units, int blocks) {
    side.shape = Side::Shape::uniform;
    side.type = &types_[type];
    side.count = ModelTypes::elements(type, units);
    memory.reserve(size_t(side.count * side.type->extent() * std::max(blocks, 1)));
  }
  /// Blocks of different lengths, in a drawn order, with gaps.
  template <typename Units>
  void various(Side& side, Memory& memory, int type, int blocks, bool general, Who who, Units&& units) {
    auto& counts = who == Who::send ? send_counts_ : receive_counts_;
    auto& displs = who == Who::send ? send_displs_ : receive_displs_;
    auto& type_list = who == Who::send ? send_types_ : receive_types_;
    std::vector<int> order(static_cast<size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.below(i)]);
    counts.assign(size_t(blocks), 0);
    displs.assign(size_t(blocks), 0);
    type_list.assign(size_t(blocks), &types_[type]);
    Count at = 0;
    size_t end = 0;
    for (int i : order) {
      int t = general ? int(rng_.below(4)) : type;
      type_list[size_t(i)] = &types_[t];
      counts[size_t(i)] = ModelTypes::elements(t, units(i));
      displs[size_t(i)] = at;
      Count gap = Count(rng_.below(3));
      Count extent = types_[t].extent();
      at += general ? (counts[size_t(i)] * extent + 64 * gap + 63) / 64 * 64 : counts[size_t(i)] + gap;
      end = size_t(general ? at : at * extent);
    }
    memory.reserve(end + 64);
    side.shape = general ? Side::Shape::general : Side::Shape::vector;
    side.type = general ? nullptr : &types_[type];
    side.types = general ? type_list.data() : nullptr;
    auto& narrow = who == Who::send ? send_narrow_ : receive_narrow_;
    if (plan_.wide) {
      side.counts = CountArray(counts.data());
      side.displs = CountArray(displs.data());
    } else {
      narrow.assign(counts.begin(), counts.end());
      narrow.insert(narrow.end(), displs.begin(), displs.end());
      side.counts = CountArray(narrow.data());
      side.displs = CountArray(narrow.data() + blocks);
    }
  }
  void store(Memory& memory, Side side, int block, const Bytes& bytes) {
    side.buffer = memory.base();
    Block b = side.block(block);
    if (b.bytes() != 0) Cursor(b.data, b.count, *b.type).unpack(bytes.data(), bytes.size());
  }
  void expect(int block, const Bytes& bytes) {
    Memory memory{expected_};
    store(memory, operands_.receive, block, bytes);
    expected_ = std::move(memory.data);
  }
  void expect_after_filling() { expected_ = receive_.data; }
  int draw_type() { return int(rng_.below(4)); }

  /// The values of processes first .. last, combined.
  Bytes reduced(int first, int last, Count units) const {
    Bytes result = stream(last, 0, units);
    for (int i = last - 1; i >= first; --i) {
      Bytes left = stream(i, 0, units);
      combine(left.data(), result.data(), units, plan_.commutative);
    }
    return result;
  }
  void make_op() {
    if (plan_.reduction_type == 0) {
      operands_.op = &types_.ops.get(OpId::sum);
      return;
    }
    bool commutative = plan_.commutative;
    op_ = Ref<Op>::adopt(new Op(
        [commutative](const void* in, void* inout, Count n, const Datatype& type) {
          Bytes left(size_t(n) * kUnit), right(size_t(n) * kUnit);
          Cursor(const_cast<void*>(in), n, type).pack(left.data(), left.size());
          Cursor(inout, n, type).pack(right.data(), right.size());
          combine(left.data(), right.data(), n, commutative);
          Cursor(inout, n, type).unpack(right.data(), right.size());
        },
        commutative));
    operands_.op = op_.get();
  }
  void fill();
  void fill_rooted(int root_world);
  void fill_reduction(int root_world);

  const Plan& plan_;
  int me_;
  ModelTypes& types_;
  Rng rng_;
  int group_first_, group_size_, peer_first_, peer_size_;
  Operands operands_;
  Memory send_, receive_;
  Bytes expected_, send_before_, receive_before_;
  std::vector<int64_t> send_counts_, send_displs_, receive_counts_, receive_displs_;
  std::vector<int32_t> send_narrow_, receive_narrow_;
  std::vector<const Datatype*> send_types_, receive_types_;
  Ref<Op> op_;
};

}  // namespace tern::sim
