// SelfPath: messages of a rank to itself. They go straight to the sink from try_send and enqueue (the named
// exception of path.h); `get` is a memory copy. Thread rule: Path's.
#pragma once

#include "fabric/path.h"

namespace tern {

class SelfPath final : public Path {
 public:
  SelfPath(PeerId me, Sink& sink);

  bool reaches(PeerId peer) const override { return peer == me_; }
  bool try_send(PeerId peer, const wire::Header& header, const void* payload, size_t bytes) override;
  /// Delivers at once; `done` is called from the next poll.
  void enqueue(SendOperation& operation) override;
  RemoteKey expose(const void*, size_t) override { return {{1, 0}}; }
  bool can_get(PeerId peer) const override { return peer == me_; }
  void get(TransferOperation& operation) override;
  int poll() override;
  bool arm() override { return finished_.empty(); }
  bool has_unsent() const override { return false; }

 private:
  PeerId me_;
  Sink& sink_;
  IntrusiveList<SendOperation> finished_;  ///< delivered, `done` is due
};

}  // namespace tern
