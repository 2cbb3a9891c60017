// Plain names used on every floor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern {

using Count = int64_t;  ///< MPI_Count: elements, or bytes where said so
using Aint = intptr_t;  ///< MPI_Aint: byte displacements and addresses

/// Index of another rank in this rank's table of peers. For the ranks of one job it is the rank in MPI_COMM_WORLD.
using PeerId = uint32_t;
inline constexpr PeerId kNoPeer = ~PeerId{0};

inline constexpr int kAnySource = -1;      ///< MPI_ANY_SOURCE
inline constexpr int kAnyTag = -2;         ///< MPI_ANY_TAG
inline constexpr int kProcNull = -3;       ///< MPI_PROC_NULL
inline constexpr int kUndefined = -32766;  ///< MPI_UNDEFINED

}  // namespace tern
