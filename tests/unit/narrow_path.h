// A path for tests of point-to-point's parts: it sends what it has room for, and keeps what is enqueued. Exposed memory
// is counted; nothing is ever transferred. Thread rule: one thread.
#pragma once

#include <vector>

#include "fabric/path.h"

namespace tern::test {

class NarrowPath final : public Path, public RemoteMemory, public CopyArbiter {
 public:
  NarrowPath() {
    properties_.eager_bytes = 1024;
    properties_.announce_from_bytes = 1;
    properties_.hybrid_bytes = 4096;
    remote_properties_.get = remote_properties_.put = true;
  }
  bool reaches(PeerId) const override { return true; }
  Lane& lane(PeerId) override { return lane_; }
  bool try_send(Lane&, const wire::Header& header, const void*, size_t) override {
    if (room == 0) return false;
    --room;
    sent.push_back(header);
    return true;
  }
  void enqueue(SendOperation& operation) override { queued.push_back(&operation); }
  bool withdraw(SendOperation& operation) override { return std::erase(queued, &operation) != 0; }
  bool has_unsent() const override { return !queued.empty(); }
  int poll() override { return 0; }
  RemoteMemory* remote_memory() override { return offers_memory ? this : nullptr; }
  CopyArbiter* copy_arbiter() override { return offers_arbiter ? this : nullptr; }

  RemoteKey expose(const void*, size_t, RemoteAccess) override {
    if (!exposes) return {};
    ++exposed;
    return RemoteKey{{++keys, 1}};
  }
  void conceal(const RemoteKey&) override { --exposed; }
  bool can_get(Lane&) override { return remote_properties_.get; }
  void get(TransferOperation&) override {}
  bool can_put(Lane&) override { return remote_properties_.put; }
  void put(TransferOperation&) override {}
  void set_ordered_writes() { remote_properties_.ordered_writes = remote_properties_.autonomous = true; }

  std::byte* lend(size_t, RemoteKey& key) override {
    if (lent == lendable.size()) return nullptr;
    key = RemoteKey{{1000 + lent, 1}};
    return &lendable[lent++];
  }
  bool peer_is_polling(Lane&, bool) override { return false; }
  void publish_heartbeat() override { ++heartbeats; }

  size_t room = SIZE_MAX;
  std::vector<wire::Header> sent;
  std::vector<SendOperation*> queued;
  bool offers_memory = false, offers_arbiter = false, exposes = true;
  int exposed = 0;
  uint64_t keys = 0;
  std::vector<std::byte> lendable;
  size_t lent = 0;
  int heartbeats = 0;

 private:
  struct TestLane : Lane {
    using Lane::Lane;
  } lane_{1};
};

}  // namespace tern::test
