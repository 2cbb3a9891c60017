// The hints of a file (MPI 5.0, 14.2.8): what an info object may say, what is in force, and how MPI_File_get_info tells
// it. Names are those of the standard, of ROMIO and of OMPIO where they mean the same. Units: bytes. Thread rule:
// values.
#pragma once

#include <cstdint>
#include <string>

#include "comm/info.h"

namespace tern::io {

enum class Wish : uint8_t { automatic, enable, disable };

struct Hints {
  Wish collective_read = Wish::automatic, collective_write = Wish::automatic;  ///< romio_cb_*, collective_buffering
  int64_t aggregators = 0;                                                     ///< cb_nodes; 0: a number for each node
  int64_t aggregators_per_node = 0;      ///< cb_config_list ("*:2"); 0: as the node's cores suggest
  int64_t collective_buffer = 16 << 20;  ///< cb_buffer_size, of one aggregator
  int64_t block = 0;                     ///< cb_block_size; 0: the file system's stripe, or kBlockBytes
  Wish sieve_read = Wish::automatic, sieve_write = Wish::automatic;  ///< romio_ds_*
  /// ind_rd_buffer_size (0: as the file system suggests), ind_wr_buffer_size
  int64_t read_buffer = 0, write_buffer = 512 << 10;
  bool direct_read = false, direct_write = false;  ///< past the page cache
  int64_t stripes = 0, stripe = 0;                 ///< striping_factor, striping_unit; 0: not known
  int64_t permissions = -1;                        ///< file_perm; -1: as umask allows
  std::string access_style;
  std::string memory_kinds;  ///< mpi_assert_memory_alloc_kinds

  /// Takes over what `info` says and this library understands; values that make no sense are ignored. `opening`: hints
  /// that only an open file's creation can follow count, too.
  void take(const Info& info, bool opening);
  /// All hints in force.
  void tell(Info& info) const;
  /// The advice of posix_fadvise(2) that access_style comes to.
  int advice() const;
};

}  // namespace tern::io
