// Hints: what the info of a window says (MPI 5.0, 12.2.1, 12.2.3 and 12.2.7), and how MPI_Win_get_info tells it. They
// are hints: a value that makes no sense says nothing, and a promise that the program breaks costs it nothing here
// (TERN_CHECK tells of it). Units: bytes. Thread rule: values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "comm/info.h"

namespace tern::rma {

struct Hints {
  /// Of memory that MPI allocates: a cache line, more than any predefined datatype asks for.
  static constexpr size_t kAlignmentBytes = 64;

  bool no_locks = false;
  bool same_size = false, same_disp_unit = false;
  bool noncontiguous = false;  ///< alloc_shared_noncontig
  std::string lock;            ///< tern_rma_lock, or the tunable
  bool lock_at_once = false;   ///< tern_rma_lock_at_once: MPI_Win_lock returns with the lock held
  std::string ordering = "rar,raw,war,waw", ops = "same_op_no_op";
  bool ops_promised = false;  ///< accumulate_ops was given
  std::string granularity = "0";
  std::string memory_kinds;  ///< mpi_assert_memory_alloc_kinds
  size_t alignment_bytes = kAlignmentBytes;

  /// `making`: of a window that is being made, where also those count that cannot change later.
  void take(const Info& info, bool making);
  /// All but the design of the locks, which depends on where the ranks are. `shared`: of MPI_Win_allocate_shared.
  /// `allocated`: its memory is MPI's.
  void tell(Info& info, bool shared, bool allocated) const;
};

}  // namespace tern::rma
