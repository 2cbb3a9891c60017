// SelfPath: messages of a rank to itself. They go straight to the sink from try_send and enqueue (the named
// exception of path.h); `get` is a memory copy. Thread rule: Path's.
#pragma once

#include "fabric/path.h"

namespace tern {

class SelfPath final : public CountingPath, public RemoteMemory {
 public:
  SelfPath(PeerId me, Sink& sink);

  bool reaches(PeerId peer) const override { return peer == lane_.id; }
  Lane& lane(PeerId) override { return lane_; }
  bool try_send(Lane& lane, const wire::Header& header, const void* payload, size_t bytes) override;
  /// Delivers at once; `done` is called from the next poll.
  void enqueue(SendOperation& operation) override;
  RemoteMemory* remote_memory() override { return this; }
  RemoteKey expose(const void*, size_t, RemoteAccess) override { return {{1, 0}}; }
  void conceal(const RemoteKey&) override {}
  bool can_get(Lane&) override { return true; }
  bool can_put(Lane&) override { return false; }
  void put(TransferOperation& operation) override;
  void get(TransferOperation& operation) override;
  int poll() override;
  int poll_shortly() override { return 0; }  // nothing comes
  bool arm() override { return finished_.empty(); }
  bool has_unsent() const override { return false; }

 private:
  struct SelfLane final : Lane {
    using Lane::Lane;
  };
  SelfLane lane_;
  Sink& sink_;
  IntrusiveList<SendOperation> finished_;  ///< delivered, `done` is due
};

}  // namespace tern
