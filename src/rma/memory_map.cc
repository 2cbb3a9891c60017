#include "rma/memory_map.h"
#include "base/assert.h"

#include <algorithm>
#include <cstdlib>

namespace tern::rma {

namespace {
// More elements or bytes than any memory has, so that sums of them do not overflow.
constexpr int64_t kMost = int64_t{1} << 60;
}  // namespace

void PerRank::set(std::vector<int64_t> values) {
  common_ = values.empty() ? 0 : values[0];
  const bool same = std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == common_; });
  values_ = same ? std::vector<int64_t>() : std::move(values);
}

MemoryMap::MemoryMap(WindowContext& context, void* base, Aint size, Aint disp_unit)
    : context_(context),
      base_(static_cast<std::byte*>(base)),
      size_(size),
      disp_unit_(disp_unit),
      owned_(nullptr, [](std::byte* memory) { std::free(memory); }) {}

void MemoryMap::set_shapes(std::vector<int64_t> sizes, std::vector<int64_t> disp_units) {
  sizes_.set(std::move(sizes));
  disp_units_.set(std::move(disp_units));
}

Error MemoryMap::allocate(size_t alignment_bytes) {
  const size_t bytes = (size_t(size_) + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  TERN_DEBUG_ASSERT(alignment_bytes != 0 && (alignment_bytes & (alignment_bytes - 1)) == 0 && !owned_);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment_bytes, std::max(bytes, alignment_bytes)));
  if (!memory) {
    return Error(ErrorClass::no_mem, "there is no memory for a window of " + std::to_string(size_) + " bytes");
  }
  owned_.reset(memory);
  base_ = memory;
  return {};
}

void MemoryMap::lies_in_part(bool whole) {
  shares_data_ = true;
  shares_all_ = whole;
  TERN_DEBUG_ASSERT(!part_.empty());
  if (place_ >= 0) base_ = part_.data(place_);
}

// Where TERN_PATH leaves the shared-memory path out, only windows that must share their memory do.
bool MemoryMap::shares_node_with(int rank) const {
  if (context_.own(rank)) return true;
  const RankEnvironment& environment = context_.comm->environment();
  const NodeSegments* segments = environment.node_segments;
  if (!segments || !(environment.segments_for_all || context_.flavor == Flavor::shared)) return false;
  return segments->shares(context_.comm->peer(rank));
}

std::byte* MemoryMap::reachable(int rank) const {
  if (context_.own(rank) && context_.flavor != Flavor::dynamic) return base_;
  const int place = shares_data_ ? part_.place_of(rank) : -1;
  return place < 0 ? nullptr : part_.data(place);
}

// --- Attached memory.

Error MemoryMap::attach(void* base, Aint size) {
  const auto wrong = [&](ErrorClass error_class, const std::string& what) {
    return Error(error_class, context_.describe() + ": " + what);
  };
  if (context_.flavor != Flavor::dynamic)
    return wrong(ErrorClass::rma_flavor, "memory can only be attached to windows of MPI_Win_create_dynamic");
  if (size < 0) return wrong(ErrorClass::size, "argument 'size' is " + std::to_string(size));
  if (size == 0) return {};
  if (!base) return wrong(ErrorClass::rma_attach, "argument 'base' is a null pointer");
  const auto low = reinterpret_cast<uintptr_t>(base);
  auto next = attached_.lower_bound(low);
  const bool overlaps_next = next != attached_.end() && next->first - low < size_t(size);
  const bool overlaps_previous = next != attached_.begin() && low - std::prev(next)->first < std::prev(next)->second;
  if (overlaps_next || overlaps_previous)
    return wrong(ErrorClass::rma_attach, "the " + std::to_string(size) + " bytes overlap memory that is attached");
  attached_[low] = size_t(size);
  return {};
}

Error MemoryMap::detach(const void* base) {
  if (context_.flavor != Flavor::dynamic)
    return Error(ErrorClass::rma_flavor,
                 context_.describe() + ": memory is only attached to windows of MPI_Win_create_dynamic");
  if (attached_.erase(reinterpret_cast<uintptr_t>(base)) == 0)
    return Error(ErrorClass::rma_attach, context_.describe() + ": argument 'base' is no address that was attached");
  return {};
}

Error MemoryMap::shared_query(int rank, Aint& size, Aint& disp_unit, void*& base) const {
  if (context_.flavor == Flavor::dynamic)
    return Error(ErrorClass::rma_flavor, context_.describe() +
                                             " was made by MPI_Win_create_dynamic, so that its memory is not "
                                             "one piece that can be asked for");
  size = 0, base = nullptr;
  const int ranks = context_.comm->size();
  if (rank == kProcNull) {
    // All ranks of a node mean the same one, also where its memory cannot be reached.
    const auto is_it = [&](int one) { return shares_node_with(one) && sizes_.of(one) > 0; };
    for (rank = 0; rank < ranks && !is_it(rank);) ++rank;
    if (rank == ranks) rank = context_.me();
  } else if (Error error = context_.check_rank(rank)) {
    return error;
  }
  disp_unit = disp_units_.of(rank);
  if (!reachable(rank) || (context_.flavor == Flavor::shared && sizes_.of(rank) == 0)) return {};
  base = reachable(rank);
  size = sizes_.of(rank);
  return {};
}

// --- What comes from others.

bool MemoryMap::contains(int64_t low, int64_t high) const {
  if (context_.flavor != Flavor::dynamic) return low >= 0 && high <= size_;
  auto next = attached_.upper_bound(uintptr_t(low));
  if (next == attached_.begin()) return false;
  // Pieces that touch count as one.
  uintptr_t end = std::prev(next)->first + std::prev(next)->second;
  for (; end < uintptr_t(high) && next != attached_.end() && next->first == end; ++next) end += next->second;
  return low < high && end >= uintptr_t(high);
}

Error MemoryMap::locate(const Datatype& type, const Place& at, Cursor& cursor) const {
  int64_t total = 0, low = 0, high = 0;
  const bool sane = at.count != 0 && at.count < uint64_t(kMost) && at.offset < uint64_t(kMost) &&
                    at.bytes < uint64_t(kMost) && !__builtin_mul_overflow(int64_t(at.count), type.size(), &total) &&
                    int64_t(at.offset + at.bytes) <= total && touched(type, Count(at.count), low, high) &&
                    !__builtin_add_overflow(low, int64_t(at.address), &low) &&
                    !__builtin_add_overflow(high, int64_t(at.address), &high);
  const bool dynamic = context_.flavor == Flavor::dynamic;
  if (!sane || !contains(low, high)) {
    const std::string where = "bytes " + std::to_string(low) + " to " + std::to_string(high) + " are not inside ";
    return Error(ErrorClass::rma_range, where + (dynamic ? "memory attached to the window" : "the target's memory"));
  }
  auto* start =
      reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(dynamic ? nullptr : base_) + uintptr_t(at.address));
  cursor = Cursor(start, Count(at.count), type);
  cursor.seek(size_t(at.offset));
  cursor.truncate(size_t(at.bytes));
  TERN_DEBUG_ASSERT(cursor.remaining() == at.bytes);
  return {};
}

}  // namespace tern::rma
