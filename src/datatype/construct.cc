#include "datatype/construct.h"

#include <algorithm>

#include "datatype/draft.h"

namespace tern::construct {
namespace {

// Files the arguments of a call where MPI_Type_get_contents wants them: counts as integers, or as large
// counts after the large-count variant; displacements in bytes as addresses, or likewise.
class Arguments {
 public:
  Arguments(Combiner combiner, Width width) : large_(width == Width::large) { envelope_.combiner = combiner; }
  Arguments& count(Count value) {
    if (large_) envelope_.large_counts.push_back(value);
    else envelope_.integers.push_back(int(value));
    return *this;
  }
  Arguments& counts(Counts values) {
    make_room(envelope_.integers, values.size());
    for (Count value : values) count(value);
    return *this;
  }
  Arguments& address(Count value) {
    if (large_) envelope_.large_counts.push_back(value);
    else envelope_.addresses.push_back(Aint(value));
    return *this;
  }
  Arguments& addresses(Counts values) {
    make_room(envelope_.addresses, values.size());
    for (Count value : values) address(value);
    return *this;
  }
  Arguments& integer(int value) {
    envelope_.integers.push_back(value);
    return *this;
  }
  Arguments& type(Datatype& type) {
    envelope_.types.push_back(Ref<Datatype>::share(&type));
    return *this;
  }
  Arguments& types(std::span<Datatype* const> types) {
    envelope_.types.reserve(types.size());
    for (Datatype* one : types) type(*one);
    return *this;
  }
  Envelope take() { return std::move(envelope_); }

 private:
  /// For `more` values that would be in `small` without a large-count variant.
  template <typename T>
  void make_room(std::vector<T>& small, size_t more) {
    if (large_) envelope_.large_counts.reserve(envelope_.large_counts.size() + more);
    else small.reserve(small.size() + more);
  }

  bool large_;
  Envelope envelope_;
};

Error negative(const char* what, Count value) {
  return Error(ErrorClass::arg, std::string(what) + " is " + std::to_string(value) + ", must not be negative");
}

Draft blocks_of(Count block, const Datatype& old) { return repeat(block, old.extent(), draft_of(old)); }

// Blocks of blocks[i] (or of blocks[0], if there is only one entry for all) elements at byte displacements.
Draft listed(Counts blocks, Counts displacements, Count unit, const Datatype& old) {
  bool one_length = blocks.size() == 1;
  bool touching = old.is_contiguous() && !old.bounds().markers;
  Draft all;
  std::vector<Draft> parts;
  std::vector<int64_t> offsets, lengths;
  Draft last;
  Count last_block = -1, total = 0;
  Count low = 0, high = 0;  // of the placed elements' displacements
  bool any = false;
  for (size_t i = 0; i < displacements.size(); ++i) {
    Count block = one_length ? blocks[0] : blocks[i];
    if (block == 0) continue;
    Count offset = times(displacements[i], unit, all.overflow);
    if (!touching) {
      if (block != last_block) last = blocks_of(block, old);
      last_block = block;
      parts.push_back(placed(offset, last));
      continue;
    }
    // The usual case, without a node per block: plain blocks of bytes.
    Count length = times(block, old.size(), all.overflow), end = plus(offset, length, all.overflow);
    low = any ? std::min(low, offset) : offset;
    high = any ? std::max(high, end) : end;
    total = plus(total, block, all.overflow);
    any = true;
    offsets.push_back(offset);
    lengths.push_back(length);
  }
  if (!touching) {
    Draft joined = join(std::move(parts));
    joined.overflow |= all.overflow;
    return joined;
  }
  times(total, old.size(), all.overflow);
  if (all.overflow || old.size() == 0) return all;
  if (!any) return all;
  all.bounds.alignment = old.alignment();
  all.bounds.true_lower = low;
  all.bounds.true_upper = high;
  all.layout = layout::pieces(std::move(offsets), std::move(lengths));
  all.signature = signature::repeat(total, old.signature());
  return all;
}

}  // namespace

Error contiguous(Count count, Datatype& old, Ref<Datatype>& made, Width width) {
  if (count < 0) return negative("the count", count);
  return make(blocks_of(count, old), Arguments(Combiner::contiguous, width).count(count).type(old).take(), made);
}

Error vector(Count count, Count block, Count stride, Datatype& old, Ref<Datatype>& made, Width width) {
  if (count < 0) return negative("the count", count);
  if (block < 0) return negative("the block length", block);
  bool overflow = false;
  Draft all = repeat(count, times(stride, old.extent(), overflow), blocks_of(block, old));
  all.overflow |= overflow;
  Arguments arguments(Combiner::vector, width);
  return make(std::move(all), arguments.count(count).count(block).count(stride).type(old).take(), made);
}

Error hvector(Count count, Count block, Count stride, Datatype& old, Ref<Datatype>& made, Width width) {
  if (count < 0) return negative("the count", count);
  if (block < 0) return negative("the block length", block);
  Draft all = repeat(count, stride, blocks_of(block, old));
  Arguments arguments(Combiner::hvector, width);
  return make(std::move(all), arguments.count(count).count(block).address(stride).type(old).take(), made);
}

static Error check_blocks(Counts blocks, Counts displacements) {
  TERN_ASSERT(blocks.size() == displacements.size());
  for (Count block : blocks)
    if (block < 0) return negative("a block length", block);
  return {};
}

// A list of one length per block must not be mistaken for one length for all.
static Draft listed_each(Counts blocks, Counts displacements, Count unit, const Datatype& old) {
  if (blocks.empty()) return {};
  return listed(blocks, displacements, unit, old);
}

Error indexed(Counts blocks, Counts displacements, Datatype& old, Ref<Datatype>& made, Width width) {
  if (Error error = check_blocks(blocks, displacements)) return error;
  Draft all = listed_each(blocks, displacements, old.extent(), old);
  Arguments arguments(Combiner::indexed, width);
  arguments.count(Count(blocks.size())).counts(blocks).counts(displacements).type(old);
  return make(std::move(all), arguments.take(), made);
}

Error hindexed(Counts blocks, Counts displacements, Datatype& old, Ref<Datatype>& made, Width width) {
  if (Error error = check_blocks(blocks, displacements)) return error;
  Draft all = listed_each(blocks, displacements, 1, old);
  Arguments arguments(Combiner::hindexed, width);
  arguments.count(Count(blocks.size())).counts(blocks).addresses(displacements).type(old);
  return make(std::move(all), arguments.take(), made);
}

Error indexed_block(Count block, Counts displacements, Datatype& old, Ref<Datatype>& made, Width width) {
  if (block < 0) return negative("the block length", block);
  Draft all = listed(Counts(&block, 1), displacements, old.extent(), old);
  Arguments arguments(Combiner::indexed_block, width);
  arguments.count(Count(displacements.size())).count(block).counts(displacements).type(old);
  return make(std::move(all), arguments.take(), made);
}

Error hindexed_block(Count block, Counts displacements, Datatype& old, Ref<Datatype>& made, Width width) {
  if (block < 0) return negative("the block length", block);
  Draft all = listed(Counts(&block, 1), displacements, 1, old);
  Arguments arguments(Combiner::hindexed_block, width);
  arguments.count(Count(displacements.size())).count(block).addresses(displacements).type(old);
  return make(std::move(all), arguments.take(), made);
}

Error structure(Counts blocks, Counts displacements, std::span<Datatype* const> olds, Ref<Datatype>& made,
                Width width) {
  if (Error error = check_blocks(blocks, displacements)) return error;
  TERN_ASSERT(olds.size() == blocks.size());
  Arguments arguments(Combiner::structure, width);
  arguments.count(Count(blocks.size())).counts(blocks).addresses(displacements).types(olds);
  std::vector<Draft> parts;
  parts.reserve(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    parts.push_back(placed(displacements[i], blocks_of(blocks[i], *olds[i])));
  }
  return make(join(std::move(parts)), arguments.take(), made);
}

Error resized(Count lower, Count extent, Datatype& old, Ref<Datatype>& made, Width width) {
  Draft all = draft_of(old);
  Count upper = plus(lower, extent, all.overflow);
  Arguments arguments(Combiner::resized, width);
  return make(marked(lower, upper, std::move(all)), arguments.address(lower).address(extent).type(old).take(), made);
}

Error dup(Datatype& old, Ref<Datatype>& made) {
  Datatype::Parts parts;
  parts.bounds = old.bounds();
  parts.layout = old.layout();
  parts.signature = old.signature();
  parts.envelope = Arguments(Combiner::dup, Width::small).type(old).take();
  parts.kind = old.kind();
  parts.committed = old.committed();
  made = Ref<Datatype>::adopt(new Datatype(std::move(parts)));
  return {};
}

Ref<Datatype> clone(const Datatype& type) {
  Datatype::Parts parts;
  parts.bounds = type.bounds();
  parts.layout = type.layout();
  parts.signature = type.signature();
  parts.envelope = type.envelope();
  parts.kind = type.kind();
  parts.committed = type.committed();
  return Ref<Datatype>::adopt(new Datatype(std::move(parts)));
}

Error subarray(Counts sizes, Counts subsizes, Counts starts, int order, Datatype& old, Ref<Datatype>& made,
               Width width) {
  size_t dims = sizes.size();
  TERN_ASSERT(subsizes.size() == dims && starts.size() == dims);
  if (dims == 0) return Error(ErrorClass::dims, "the number of dimensions is 0, must be positive");
  if (order != kOrderC && order != kOrderFortran)
    return Error(ErrorClass::arg, "the order is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN");
  for (size_t d = 0; d < dims; ++d) {
    bool inside = subsizes[d] >= 1 && subsizes[d] <= sizes[d] && starts[d] >= 0 && starts[d] <= sizes[d] - subsizes[d];
    if (!inside)
      return Error(ErrorClass::arg, "in dimension " + std::to_string(d) + " the subarray of " +
                                        std::to_string(subsizes[d]) + " from " + std::to_string(starts[d]) +
                                        " is not inside the array of " + std::to_string(sizes[d]));
  }
  Draft all = draft_of(old);
  Count stride = old.extent();
  bool overflow = false;
  for (size_t i = 0; i < dims; ++i) {
    size_t d = order == kOrderFortran ? i : dims - 1 - i;  // the dimension that varies fastest comes first
    all = placed(times(starts[d], stride, overflow), repeat(subsizes[d], stride, all));
    stride = times(stride, sizes[d], overflow);
  }
  all.overflow |= overflow;
  Arguments arguments(Combiner::subarray, width);
  arguments.integer(int(dims)).counts(sizes).counts(subsizes).counts(starts).integer(order).type(old);
  return make(marked(0, stride, std::move(all)), arguments.take(), made);
}

namespace {

// One dimension of a block-cyclic distribution: cyclic() of MPI 5.0, 5.1.4. `darg` elements a block, the
// blocks dealt round to `psize` processes, of which this is number `r`.
Draft cyclic(Count darg, Count gsize, Count r, Count psize, Count extent, const Draft& old) {
  bool overflow = false;
  Count blocks = (gsize - 1) / darg + 1;
  Count mine = blocks / psize + (r < blocks % psize ? 1 : 0);
  Draft all;
  if (mine > 0) {
    Count last_block = (mine - 1) * psize + r;
    Count last_length = std::min(darg, gsize - last_block * darg);
    Count block_bytes = times(darg, extent, overflow), round_bytes = times(block_bytes, psize, overflow);
    Count first = times(r, block_bytes, overflow);
    Count full = last_length == darg ? mine : mine - 1;
    std::vector<Draft> parts;
    parts.push_back(placed(first, repeat(full, round_bytes, repeat(darg, extent, old))));
    if (full < mine)
      parts.push_back(placed(times(last_block, block_bytes, overflow), repeat(last_length, extent, old)));
    all = join(std::move(parts));
  }
  all.overflow |= overflow;
  return all;
}

}  // namespace

Error darray(int size, int rank, Counts gsizes, std::span<const int> distribs, std::span<const int> dargs,
             std::span<const int> psizes, int order, Datatype& old, Ref<Datatype>& made, Width width) {
  size_t dims = gsizes.size();
  TERN_ASSERT(distribs.size() == dims && dargs.size() == dims && psizes.size() == dims);
  if (dims == 0) return Error(ErrorClass::dims, "the number of dimensions is 0, must be positive");
  if (order != kOrderC && order != kOrderFortran)
    return Error(ErrorClass::arg, "the order is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN");
  if (size < 1 || rank < 0 || rank >= size)
    return Error(ErrorClass::arg, "the rank " + std::to_string(rank) + " is not in a group of " + std::to_string(size));
  Count processes = 1;
  std::vector<Count> block(dims), place(dims);
  for (size_t d = 0; d < dims; ++d) {
    std::string where = "in dimension " + std::to_string(d) + " ";
    if (psizes[d] < 1) return Error(ErrorClass::arg, where + "the process grid's size is not positive");
    if (gsizes[d] < 1) return Error(ErrorClass::arg, where + "the array's size is not positive");
    processes *= psizes[d];
    if (processes > size) break;
    bool standard = dargs[d] == kDistributeDefault;
    if (!standard && distribs[d] != kDistributeNone && dargs[d] < 1)
      return Error(ErrorClass::arg, where + "the distribution argument is not positive");
    switch (distribs[d]) {
      case kDistributeNone:
        if (psizes[d] != 1)
          return Error(ErrorClass::arg, where + "the array is not distributed, but the process grid is");
        block[d] = gsizes[d];
        break;
      case kDistributeBlock:
        block[d] = standard ? (gsizes[d] - 1) / psizes[d] + 1 : dargs[d];
        if ((gsizes[d] - 1) / psizes[d] + 1 > block[d])
          return Error(ErrorClass::arg, where + "blocks of the distribution argument do not cover the array");
        break;
      case kDistributeCyclic: block[d] = standard ? 1 : dargs[d]; break;
      default: return Error(ErrorClass::arg, where + "the distribution is none that MPI knows");
    }
  }
  if (processes != size)
    return Error(ErrorClass::arg, "the process grid does not have " + std::to_string(size) + " processes");
  Count rest = rank, grid = size;
  for (size_t d = 0; d < dims; ++d) {
    grid /= psizes[d];
    place[d] = rest / grid;
    rest %= grid;
  }
  Draft all = draft_of(old);
  Count extent = old.extent();
  bool overflow = false;
  for (size_t i = 0; i < dims; ++i) {
    size_t d = order == kOrderFortran ? i : dims - 1 - i;
    all = cyclic(block[d], gsizes[d], place[d], psizes[d], extent, all);
    extent = times(extent, gsizes[d], overflow);
  }
  all.overflow |= overflow;
  Arguments arguments(Combiner::darray, width);
  arguments.integer(size).integer(rank).integer(int(dims)).counts(gsizes);
  for (int value : distribs) arguments.integer(value);
  for (int value : dargs) arguments.integer(value);
  for (int value : psizes) arguments.integer(value);
  arguments.integer(order).type(old);
  return make(marked(0, extent, std::move(all)), arguments.take(), made);
}

}  // namespace tern::construct
