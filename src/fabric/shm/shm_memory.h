// ShmMemory: what a rank of a node does with the memory of another: copies by cross-memory attach where the kernel
// allows it, gets from memory that was lent, and the decision which of two ranks makes a copy (copy locks, heartbeats,
// and the measured speed of both ways).
//
// Thread rule: as Path.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tunables.h"
#include "fabric/path.h"
#include "fabric/shm/shm_lane.h"

namespace tern {

class ShmMemory final : public RemoteMemory, public CopyArbiter {
 public:
  /// Lanes of the calls are ShmLanes. `path` counts; it and the node outlive this. `eager_bytes`: of the path.
  ShmMemory(ShmNode& node, const CountingPath& path, size_t eager_bytes, const Tunables& tunables);

  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) override;
  void conceal(const RemoteKey& key) override;
  bool can_get(Lane& lane) override;
  void get(TransferOperation& operation) override;
  bool can_put(Lane& lane) override;
  void put(TransferOperation& operation) override;

  bool add_copy_lock(RemoteKey& key) override;
  bool try_lock_copy(Lane* owner, const RemoteKey& key) override;
  std::byte* lend(size_t bytes, RemoteKey& key) override;
  bool can_get_lent(Lane&) override { return true; }
  void publish_heartbeat() override { node_.block(node_.my_slot()).beat.store(++beat_, std::memory_order_relaxed); }
  bool stream_is_faster(Lane& lane, size_t bytes, Traffic traffic) override;
  bool peer_is_polling(Lane& lane, bool stays) override;
  bool peer_has_polled(Lane& lane) override;

  /// The clock, if a message of that length to or from `memory` is to be timed; else 0.
  uint64_t time_of(const Cursor& memory, size_t bytes) const {
    return is_timed(memory, bytes) ? node_.port().now_ns() : 0;
  }
  bool is_timed(const Cursor& memory, size_t bytes) const;
  /// A message of `bytes` that is timed, since `began_ns`, has been streamed from there.
  void streamed(ShmLane& lane, size_t bytes, uint64_t began_ns);

 private:
  using CopyAcross = Error (shm::NodePort::*)(pid_t, Cursor&, uint64_t, size_t);
  Error copy_across(TransferOperation& operation, CopyAcross copy);
  void get_lent(TransferOperation& operation);
  void make_copy_locks();

  ShmNode& node_;
  const CountingPath& path_;
  const bool allow_attach_;
  const size_t attach_from_bytes_;  ///< tunable shm_get_bytes
  /// Where ranks share cores: what fits into the ring beside the message before it. Of a longer message both ranks
  /// would copy in turns, and each turn costs a change of the processor, with all ranks that wait in between.
  const size_t longest_stream_;
  const size_t eager_bytes_;
  size_t lent_ = 0;                   ///< bytes of this rank's lent memory that are in use; never returned
  uint32_t lock_generation_ = 0;      ///< of the last copy lock made
  std::vector<uint32_t> free_locks_;  ///< offsets in this rank's lent memory
  uint32_t beat_ = 0;
};

}  // namespace tern
