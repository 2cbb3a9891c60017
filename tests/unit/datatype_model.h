// The standard's own definition of a datatype, spelled out: a list of (basic type, displacement) and markers
// (MPI 5.0, 5.1). Slow and plain, the measure for the real one. The generator makes a random datatype and its
// model together.
#pragma once

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "datatype/construct.h"
#include "datatype/predefined.h"

namespace tern::model {

struct Entry {
  Kind kind;
  int64_t displacement;
};

struct TypeMap {
  std::vector<Entry> entries;
  bool markers = false;
  int64_t marked_lower = 0, marked_upper = 0;

  int64_t true_lower() const {
    int64_t low = entries.empty() ? 0 : entries[0].displacement;
    for (const Entry& e : entries) low = std::min(low, e.displacement);
    return low;
  }
  static int64_t end_of(const Entry& e) {
    bool pair = e.kind.type_class == TypeClass::pair;
    return e.displacement + (pair ? e.kind.index_offset + int64_t(rep_size(e.kind.index_rep)) : e.kind.size);
  }
  int64_t true_upper() const {
    int64_t high = entries.empty() ? 0 : end_of(entries[0]);
    for (const Entry& e : entries) high = std::max(high, end_of(e));
    return high;
  }
  int64_t lower() const { return markers ? marked_lower : true_lower(); }
  int64_t upper() const {
    if (markers) return marked_upper;
    int64_t alignment = 1;
    for (const Entry& e : entries) alignment = std::max<int64_t>(alignment, e.kind.alignment);
    int64_t extent = true_upper() - true_lower();
    return true_lower() + (extent + alignment - 1) / alignment * alignment;
  }
  int64_t extent() const { return upper() - lower(); }
  int64_t size() const {
    int64_t sum = 0;
    for (const Entry& e : entries) sum += e.kind.size;
    return sum;
  }
  /// Appends `other` displaced by `offset`.
  void append(const TypeMap& other, int64_t offset) {
    for (const Entry& e : other.entries) entries.push_back({e.kind, e.displacement + offset});
    if (!other.markers) return;
    marked_lower = markers ? std::min(marked_lower, other.marked_lower + offset) : other.marked_lower + offset;
    marked_upper = markers ? std::max(marked_upper, other.marked_upper + offset) : other.marked_upper + offset;
    markers = true;
  }
  void append_block(const TypeMap& other, int64_t count, int64_t offset) {
    int64_t extent = other.extent();
    for (int64_t i = 0; i < count; ++i) append(other, offset + i * extent);
  }
  /// Displacement of every data byte, in packing order.
  std::vector<int64_t> bytes(int64_t count) const {
    std::vector<int64_t> all;
    int64_t step = extent();
    for (int64_t c = 0; c < count; ++c)
      for (const Entry& e : entries) {
        int64_t at = c * step + e.displacement;
        if (e.kind.type_class == TypeClass::pair) {
          int64_t value = int64_t(rep_size(e.kind.rep)), index = int64_t(rep_size(e.kind.index_rep));
          for (int64_t b = 0; b < value; ++b) all.push_back(at + b);
          for (int64_t b = 0; b < index; ++b) all.push_back(at + e.kind.index_offset + b);
        } else {
          for (int64_t b = 0; b < e.kind.size; ++b) all.push_back(at + b);
        }
      }
    return all;
  }
};

struct Sample {
  Ref<Datatype> type;
  TypeMap map;
};

/// A random nest of constructors over random predefined types. `overlap` permits displacements that put data
/// twice at the same place, which packing allows and unpacking does not.
class Generator {
 public:
  Generator(uint64_t seed, PredefinedTypes& types) : rng_(seed), types_(types) {}

  Rng& rng() { return rng_; }
  Sample make(int depth) {
    if (depth == 0 || rng_.chance(1, 8)) return basic();
    Sample old = make(depth - 1);
    if (old.map.entries.size() > 600) return old;
    switch (rng_.below(12)) {
      case 0: return contiguous(old);
      case 1: return vector(old, false);
      case 2: return vector(old, true);
      case 3: return indexed(old, false, false);
      case 4: return indexed(old, true, false);
      case 5: return indexed(old, false, true);
      case 6: return indexed(old, true, true);
      case 7: return structure(old, depth);
      case 8: return resized(old);
      case 9: return subarray(old);
      case 10: return darray(old);
      default: return dup(old);
    }
  }

 private:
  /// A count: seldom nought, which would make most nests empty.
  int64_t some(int64_t high) { return rng_.chance(1, 12) ? 0 : between(1, high); }
  int64_t between(int64_t low, int64_t high) { return low + int64_t(rng_.below(uint64_t(high - low + 1))); }

  Sample basic() {
    const Kind& kind = kind_at(int(rng_.below(uint64_t(kind_count()))));
    Sample made{Ref<Datatype>::share(&types_.get(kind.id)), {}};
    made.map.entries.push_back({kind, 0});
    // The standard makes a pair a struct, so its map is padded to its alignment; a single entry does the same
    // here.
    return made;
  }
  Sample contiguous(Sample& old) {
    Sample made;
    int64_t count = some(4);
    EXPECT_FALSE(construct::contiguous(count, *old.type, made.type));
    made.map.append_block(old.map, count, 0);
    return made;
  }
  Sample vector(Sample& old, bool bytes) {
    Sample made;
    int64_t count = some(5), block = some(3), stride = between(-4, 6);
    if (bytes) stride *= between(1, 9);
    int64_t step = bytes ? stride : stride * old.map.extent();
    Error error = bytes ? construct::hvector(count, block, stride, *old.type, made.type)
                        : construct::vector(count, block, stride, *old.type, made.type);
    EXPECT_FALSE(error);
    for (int64_t i = 0; i < count; ++i) made.map.append_block(old.map, block, i * step);
    return made;
  }
  Sample indexed(Sample& old, bool bytes, bool one_length) {
    Sample made;
    int64_t count = some(5), block = some(3);
    std::vector<Count> blocks, displacements;
    int64_t at = between(-3, 3);
    for (int64_t i = 0; i < count; ++i) {
      if (!one_length) block = some(3);
      blocks.push_back(block);
      displacements.push_back(at);
      // Often just behind the last block, so that joining is tried.
      at +=
          rng_.chance(1, 2) ? (bytes ? block * old.map.extent() : block) : between(-5, 9) * (bytes ? between(1, 8) : 1);
    }
    Error error;
    if (one_length)
      error = bytes ? construct::hindexed_block(block, displacements, *old.type, made.type)
                    : construct::indexed_block(block, displacements, *old.type, made.type);
    else
      error = bytes ? construct::hindexed(blocks, displacements, *old.type, made.type)
                    : construct::indexed(blocks, displacements, *old.type, made.type);
    EXPECT_FALSE(error);
    for (size_t i = 0; i < blocks.size(); ++i)
      made.map.append_block(old.map, blocks[i], displacements[i] * (bytes ? 1 : old.map.extent()));
    return made;
  }
  Sample structure(Sample& old, int depth) {
    Sample made, other = make(depth - 1);
    std::vector<Count> blocks, displacements;
    std::vector<Datatype*> olds;
    int64_t count = between(1, 4), at = between(-8, 8);
    for (int64_t i = 0; i < count; ++i) {
      Sample& part = rng_.chance(1, 2) ? old : other;
      if (made.map.entries.size() + part.map.entries.size() * 3 > 2000) break;
      blocks.push_back(some(3));
      displacements.push_back(at);
      olds.push_back(part.type.get());
      made.map.append_block(part.map, blocks.back(), at);
      at += rng_.chance(1, 2) ? blocks.back() * part.map.extent() : between(-20, 60);
    }
    EXPECT_FALSE(construct::structure(blocks, displacements, olds, made.type));
    return made;
  }
  Sample resized(Sample& old) {
    Sample made;
    int64_t lower = between(-9, 9), extent = between(0, 3) * 8 + old.map.extent() + between(-4, 20);
    EXPECT_FALSE(construct::resized(lower, extent, *old.type, made.type));
    made.map = old.map;
    made.map.markers = true;
    made.map.marked_lower = lower;
    made.map.marked_upper = lower + extent;
    return made;
  }
  Sample dup(Sample& old) {
    Sample made{{}, old.map};
    EXPECT_FALSE(construct::dup(*old.type, made.type));
    return made;
  }
  // Element (i0, i1, …) of an array in the given order, kept when `mine` says so; the fastest dimension last
  // for C.
  template <typename Mine>
  void array(Sample& made, const Sample& old, const std::vector<Count>& sizes, int order, Mine&& mine) {
    size_t dims = sizes.size();
    int64_t total = 1;
    for (Count size : sizes) total *= size;
    for (int64_t linear = 0; linear < total; ++linear) {
      int64_t rest = linear;
      bool in = true;
      for (size_t i = 0; i < dims; ++i) {
        size_t d = order == construct::kOrderC ? dims - 1 - i : i;
        in &= mine(d, rest % sizes[d]);
        rest /= sizes[d];
      }
      if (in) made.map.append(old.map, linear * old.map.extent());
    }
    made.map.markers = true;
    made.map.marked_lower = 0;
    made.map.marked_upper = total * old.map.extent();
  }
  Sample subarray(Sample& old) {
    Sample made;
    size_t dims = size_t(between(1, 3));
    std::vector<Count> sizes, subsizes, starts;
    for (size_t d = 0; d < dims; ++d) {
      sizes.push_back(between(1, 4));
      subsizes.push_back(between(1, sizes[d]));
      starts.push_back(between(0, sizes[d] - subsizes[d]));
    }
    int order = rng_.chance(1, 2) ? construct::kOrderC : construct::kOrderFortran;
    EXPECT_FALSE(construct::subarray(sizes, subsizes, starts, order, *old.type, made.type));
    array(made, old, sizes, order, [&](size_t d, int64_t i) { return i >= starts[d] && i < starts[d] + subsizes[d]; });
    return made;
  }
  Sample darray(Sample& old) {
    Sample made;
    size_t dims = size_t(between(1, 3));
    std::vector<Count> gsizes, block;
    std::vector<int> distribs, dargs, psizes, place;
    int size = 1;
    for (size_t d = 0; d < dims; ++d) {
      gsizes.push_back(between(1, 6));
      distribs.push_back(int(between(construct::kDistributeNone, construct::kDistributeCyclic)));
      bool none = distribs[d] == construct::kDistributeNone, cyclic = distribs[d] == construct::kDistributeCyclic;
      psizes.push_back(none ? 1 : int(between(1, 3)));
      int64_t share = (gsizes[d] + psizes[d] - 1) / psizes[d];
      bool standard = rng_.chance(1, 3);
      int darg = cyclic ? int(between(1, 3)) : int(between(share, share + 1));
      dargs.push_back(standard ? construct::kDistributeDefault : darg);
      block.push_back(none ? gsizes[d] : standard ? (cyclic ? 1 : share) : darg);
      size *= psizes[d];
    }
    int rank = int(between(0, size - 1)), rest = rank, grid = size;
    for (size_t d = 0; d < dims; ++d) {
      grid /= psizes[d];
      place.push_back(rest / grid);
      rest %= grid;
    }
    int order = rng_.chance(1, 2) ? construct::kOrderC : construct::kOrderFortran;
    EXPECT_FALSE(construct::darray(size, rank, gsizes, distribs, dargs, psizes, order, *old.type, made.type));
    array(made, old, gsizes, order, [&](size_t d, int64_t i) { return i / block[d] % psizes[d] == place[d]; });
    return made;
  }

  Rng rng_;
  PredefinedTypes& types_;
};

}  // namespace tern::model
