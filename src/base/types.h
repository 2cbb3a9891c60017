// Plain names used in every layer.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace tern {

using Count = int64_t;  ///< MPI_Count: elements, or bytes where the name says so
using Aint = intptr_t;  ///< MPI_Aint: byte displacements and addresses

/// Index of a rank in this rank's table of peers (base/peer_table.h). It means nothing to other ranks; wire formats use
/// RankName.
using PeerId = uint32_t;
inline constexpr PeerId kNoPeer = ~PeerId{0};

/// The name of a rank that all processes agree on: its job, and its rank in that job's MPI_COMM_WORLD.
struct RankName {
  uint64_t job = 0;
  uint32_t rank = 0;
  auto operator<=>(const RankName&) const = default;
};
inline constexpr RankName kNoRank{0, ~uint32_t{0}};

inline constexpr int kAnySource = -1;      ///< MPI_ANY_SOURCE
inline constexpr int kAnyTag = -2;         ///< MPI_ANY_TAG
inline constexpr int kProcNull = -3;       ///< MPI_PROC_NULL
inline constexpr int kUndefined = -32766;  ///< MPI_UNDEFINED

}  // namespace tern
