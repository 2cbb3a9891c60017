// ExposedMemory: a user's memory that a peer may read or write until this object ends. Thread rule: under the rank's
// lock.
#pragma once

#include <cstddef>
#include <utility>

#include "p2p/core/endpoint.h"

namespace tern {

class ExposedMemory {
 public:
  ExposedMemory() = default;
  ExposedMemory(Endpoint& to, const void* memory, size_t bytes, RemoteAccess access) {
    expose(to, memory, bytes, access);
  }
  ExposedMemory(ExposedMemory&& other) noexcept
      : to_(std::exchange(other.to_, nullptr)), key_(std::exchange(other.key_, {})) {}
  ExposedMemory& operator=(ExposedMemory&& other) noexcept {
    std::swap(to_, other.to_);
    std::swap(key_, other.key_);
    return *this;
  }
  [[gnu::always_inline]] ~ExposedMemory() {
    if (to_ && !key_.empty() && !to_->lost()) to_->memory->conceal(key_);
  }

  /// Empty as yet; still so when the path refuses. The endpoint's path has RemoteMemory.
  void expose(Endpoint& to, const void* memory, size_t bytes, RemoteAccess access) {
    key_ = to.memory->expose(memory, bytes, access);
    if (key_ != to.memory->remote_properties().usual_key) to_ = &to;
  }
  bool empty() const { return key_.empty(); }
  const RemoteKey& key() const { return key_; }
  /// From now on the key says that copies need the lock. As CopyArbiter::add_copy_lock.
  bool add_copy_lock(Endpoint& to) {
    if (!to.arbiter->add_copy_lock(key_)) return false;
    to_ = &to;
    return true;
  }
  /// The path is gone, and what was exposed with it.
  void forget() { key_ = {}; }

 private:
  Endpoint* to_ = nullptr;  ///< null: there is nothing to conceal
  RemoteKey key_;
};

}  // namespace tern
