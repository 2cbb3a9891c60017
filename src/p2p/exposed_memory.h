// ExposedMemory: a user's memory that a peer may read or write until this object ends. Thread rule: under the rank's
// lock.
#pragma once

#include <cstddef>
#include <utility>

#include "p2p/endpoint.h"

namespace tern {

class ExposedMemory {
 public:
  ExposedMemory() = default;
  /// Empty when the path refuses. The endpoint's path has RemoteMemory.
  ExposedMemory(Endpoint& to, const void* memory, size_t bytes, RemoteAccess access)
      : to_(&to), key_(to.memory->expose(memory, bytes, access)) {}
  ExposedMemory(ExposedMemory&& other) noexcept
      : to_(std::exchange(other.to_, nullptr)), key_(std::exchange(other.key_, {})) {}
  ExposedMemory& operator=(ExposedMemory&& other) noexcept {
    std::swap(to_, other.to_);
    std::swap(key_, other.key_);
    return *this;
  }
  ~ExposedMemory() {
    if (!key_.empty() && !to_->lost()) to_->memory->conceal(key_);
  }

  bool empty() const { return key_.empty(); }
  const RemoteKey& key() const { return key_; }
  /// The same memory, whose key says from now on that copies need the lock. As CopyArbiter::add_copy_lock.
  bool add_copy_lock() { return to_->arbiter->add_copy_lock(key_); }
  /// The path is gone, and what was exposed with it.
  void forget() { key_ = {}; }

 private:
  Endpoint* to_ = nullptr;
  RemoteKey key_;
};

}  // namespace tern
