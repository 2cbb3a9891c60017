// ScheduledMemory: the memory of peers by the first of several paths that has it (path_scheduler.h), while its lane is
// in use. What a lost lane fails falls back to messages, as always.
// Thread rule: as RemoteMemory.
#pragma once

#include <functional>
#include <utility>

#include "fabric/remote_memory.h"

namespace tern {

class ScheduledMemory final : public RemoteMemory {
 public:
  /// The lane to a peer of the path that has the memory; null: another one is in use.
  using LaneInUse = std::function<Lane*(Lane&)>;

  ScheduledMemory(RemoteMemory& memory, LaneInUse lane_in_use) : memory_(memory), lane_in_use_(std::move(lane_in_use)) {
    remote_properties_ = memory.remote_properties();
    // A message must not overtake a put that may have to be repeated.
    remote_properties_.puts_before_messages = false;
    remote_properties_.ordered_writes = false;
  }

  RemoteKey expose(const void* address, size_t bytes, RemoteAccess access) override {
    return memory_.expose(address, bytes, access);
  }
  void conceal(const RemoteKey& key) override { memory_.conceal(key); }
  bool can_get(Lane& peer) override {
    Lane* lane = lane_in_use_(peer);
    return lane && memory_.can_get(*lane);
  }
  bool can_put(Lane& peer) override {
    Lane* lane = lane_in_use_(peer);
    return lane && memory_.can_put(*lane);
  }
  void get(TransferOperation& operation) override {
    if (resolve(operation)) memory_.get(operation);
  }
  void put(TransferOperation& operation) override {
    if (resolve(operation)) memory_.put(operation);
  }
  void atomic(AtomicOperation& operation) override {
    if (resolve(operation)) memory_.atomic(operation);
  }
  void flush(FlushOperation& operation) override {
    if (resolve(operation)) memory_.flush(operation);
  }

 private:
  /// Names the path's lane. False: the operation has failed.
  template <typename Operation>
  bool resolve(Operation& operation) {
    Lane* lane = lane_in_use_(*operation.lane);
    if (lane) operation.lane = lane;
    else operation.done(operation, Error(ErrorClass::other, "the lane that moves memory is not in use"));
    return lane != nullptr;
  }

  RemoteMemory& memory_;
  const LaneInUse lane_in_use_;
};

}  // namespace tern
