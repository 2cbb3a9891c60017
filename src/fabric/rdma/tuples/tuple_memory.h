// TupleMemory: the registered memory of tuple queues over an adapter: spare room for messages that are longer than the
// receive that they meet, and copies of short messages.
//
// Length: a message longer than the receive that it meets would put the queue pair into the error state. So each
// receive has spare room behind the user's buffer, pieces of one scratch region that nobody reads: enough for the
// longest message that a queue takes, however short the buffer.
//
// Units: bytes. Thread rule: as Path.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/rdma/verbs/hca.h"
#include "fabric/tuple_repair.h"

namespace tern::rdma {

class TupleMemory {
 public:
  static constexpr uint32_t kMaxSparePieces = 8;  ///< of one receive: covers the longest TERN_TUPLE_BYTES, 8 MiB

  /// `copy_bytes`: of each copy; 0: none. `wanted_bytes`: the longest message, if the adapter's receives may have so
  /// many pieces beside the user's (`more_pieces`).
  TupleMemory(size_t copy_bytes, size_t wanted_bytes, uint32_t more_pieces)
      : copies(copy_bytes), spare_bytes_(std::min(wanted_bytes, kSpareBytes)) {
    if (spare_bytes_ != 0) {
      const size_t pieces = (wanted_bytes + spare_bytes_ - 1) / spare_bytes_;
      spare_pieces_ = uint32_t(std::min<size_t>(pieces, std::min(kMaxSparePieces, more_pieces)));
    }
    longest_bytes_ = std::min(wanted_bytes, spare_bytes_ * spare_pieces_);
  }
  /// The adapter goes after this.
  Error start(Hca& hca) {
    if (spare_bytes_ != 0) {
      spare_ = std::make_unique_for_overwrite<std::byte[]>(spare_bytes_);
      if (Error error = hca.register_memory(spare_.get(), spare_bytes_, Access{}, spare_region_)) return error;
    }
    if (!copies.memory()) return {};
    return hca.register_memory(copies.memory(), copies.all_bytes(), Access{}, copies_region_);
  }

  /// Of a message that a queue takes.
  size_t longest_bytes() const { return longest_bytes_; }
  uint32_t spare_pieces() const { return spare_pieces_; }
  /// Writes the spare room to `pieces`; returns how many there are.
  uint32_t add_spare(Piece* pieces) const {
    for (uint32_t i = 0; i < spare_pieces_; ++i)
      pieces[i] = {reinterpret_cast<uint64_t>(spare_.get()), uint32_t(spare_bytes_), spare_region_->local_key()};
    return spare_pieces_;
  }
  uint32_t copies_key() const { return copies_region_->local_key(); }

  LentCopies copies;

 private:
  static constexpr size_t kSpareBytes = size_t{1} << 20;  // shared by all receives

  size_t spare_bytes_;
  uint32_t spare_pieces_ = 0;
  size_t longest_bytes_ = 0;
  std::unique_ptr<std::byte[]> spare_;
  std::unique_ptr<MemoryRegion> spare_region_, copies_region_;
};

}  // namespace tern::rdma
