// Operands of a collective: the buffers, counts and datatypes of one call, in one shape for all operations, so that
// every algorithm has the same signature and stands in one table (select.h).
// Source: MPI 5.0 chapter 6, section 8.6. Counts in elements, displacements as the standard gives them.
// Thread rule: values; they point to the caller's arrays, which live until the schedule is built (not longer).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.h"
#include "datatype/datatype.h"
#include "datatype/op.h"

namespace tern {

/// MPI_IN_PLACE of the ABI, as a buffer.
inline void* const kInPlace = reinterpret_cast<void*>(uintptr_t{1});

/// MPI_ROOT: the root argument of the root itself on an intercommunicator. (Other members of its group pass kProcNull.)
inline constexpr int kRoot = -4;

enum class Operation : uint8_t {
  barrier,
  bcast,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  reduce,
  allreduce,
  reduce_scatter,
  reduce_scatter_block,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw
};
inline constexpr int kOperations = int(Operation::neighbor_alltoallw) + 1;  ///< number of operations
const char* name_of(Operation operation);
/// "MPI_Reduce_scatter".
std::string function_of(Operation operation);

/// int[] or MPI_Count[] of the caller, read as 64 bits.
class CountArray {
 public:
  CountArray() = default;
  explicit CountArray(const int32_t* values) : values_(values) {}
  explicit CountArray(const int64_t* values) : values_(values), wide_(true) {}
  Count operator[](int i) const {
    return wide_ ? static_cast<const int64_t*>(values_)[i] : static_cast<const int32_t*>(values_)[i];
  }
  bool null() const { return values_ == nullptr; }

 private:
  const void* values_ = nullptr;
  bool wide_ = false;
};

/// One process's share of a buffer.
struct Block {
  std::byte* data;
  Count count;
  const Datatype* type;
  size_t bytes() const { return size_t(count) * size_t(type->size()); }
};

/// The sending or the receiving side of a call.
///   uniform: `count` elements of `type` for each process, one after the other
///   vector:  counts[i] elements of `type` at displs[i] extents
///   general: counts[i] elements of types[i] at displs[i] bytes
struct Side {
  enum class Shape : uint8_t { uniform, vector, general };
  Shape shape = Shape::uniform;
  std::byte* buffer = nullptr;
  Count count = 0;
  const Datatype* type = nullptr;
  CountArray counts, displs;
  const Datatype* const* types = nullptr;

  /// Bytes from one block of a uniform side to the next.
  Aint stride() const { return Aint(count * type->extent()); }
  /// Of a block of a uniform side.
  size_t bytes() const { return size_t(count) * size_t(type->size()); }
  Block block(int i) const {
    switch (shape) {
      case Shape::uniform: return {buffer + i * stride(), count, type};
      case Shape::vector: return {buffer + displs[i] * type->extent(), counts[i], type};
      default: return {buffer + displs[i], counts[i], types[i]};
    }
  }
  /// All of a side that is for one process.
  Block whole() const { return {buffer, count, type}; }
  /// Blocks first .. first + n - 1 of a uniform side as one.
  Block blocks(int first, int n) const { return {buffer + first * stride(), count * n, type}; }
};

/// One call. Which members have a meaning depends on the operation; a side that is not significant at this process has
/// a null type. In place: `in_place` is set and the side that the caller did not give is left empty.
///   bcast        receive is the buffer, at the root too
///   reductions   both sides share count and type; reduce_scatter has receive.counts
///   alltoall and allgather families   send.block(i), receive.block(i)
struct Operands {
  Side send, receive;
  const Op* op = nullptr;
  int root = 0;
  bool in_place = false;

  /// Reductions: this process's own values.
  const std::byte* contribution() const { return in_place ? receive.buffer : send.buffer; }
};

}  // namespace tern
