// The datatype constructors (MPI 5.0, 5.1.2 to 5.1.7). Each gives a new, uncommitted datatype with one
// reference, or an error for arguments the standard forbids; the old types are only referenced. `width` says
// which variant of the call the user made, which decides where MPI_Type_get_contents puts the counts. Thread
// rule: under the rank's lock (reference counts of the old types).
#pragma once

#include <span>

#include "base/error.h"
#include "datatype/datatype.h"

namespace tern::construct {

enum class Width { small, large };
using Counts = std::span<const Count>;

/// Array storage orders and distributions, by the ABI's numbers.
inline constexpr int kOrderC = 12, kOrderFortran = 15;
inline constexpr int kDistributeNone = 16, kDistributeBlock = 17, kDistributeCyclic = 18, kDistributeDefault = 19;

Error contiguous(Count count, Datatype& old, Ref<Datatype>& made, Width width = Width::small);
/// Strides in elements.
Error vector(Count count, Count block, Count stride, Datatype& old, Ref<Datatype>& made, Width width = Width::small);
/// Strides in bytes.
Error hvector(Count count, Count block, Count stride, Datatype& old, Ref<Datatype>& made, Width width = Width::small);
/// Displacements in elements.
Error indexed(Counts blocks, Counts displacements, Datatype& old, Ref<Datatype>& made, Width width = Width::small);
/// Displacements in bytes.
Error hindexed(Counts blocks, Counts displacements, Datatype& old, Ref<Datatype>& made, Width width = Width::small);
Error indexed_block(Count block, Counts displacements, Datatype& old, Ref<Datatype>& made, Width width = Width::small);
Error hindexed_block(Count block, Counts displacements, Datatype& old, Ref<Datatype>& made, Width width = Width::small);
Error structure(Counts blocks, Counts displacements, std::span<Datatype* const> olds, Ref<Datatype>& made,
                Width width = Width::small);
Error subarray(Counts sizes, Counts subsizes, Counts starts, int order, Datatype& old, Ref<Datatype>& made,
               Width width = Width::small);
Error darray(int size, int rank, Counts gsizes, std::span<const int> distribs, std::span<const int> dargs,
             std::span<const int> psizes, int order, Datatype& old, Ref<Datatype>& made, Width width = Width::small);
Error resized(Count lower, Count extent, Datatype& old, Ref<Datatype>& made, Width width = Width::small);
/// In the same committed state; without the attributes, which are the caller's to copy.
Error dup(Datatype& old, Ref<Datatype>& made);
/// A new object equal to a derived one, with the same envelope: what MPI_Type_get_contents hands out.
Ref<Datatype> clone(const Datatype& type);

}  // namespace tern::construct
