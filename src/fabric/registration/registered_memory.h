// Memory that an adapter may touch, and who registers it: what the registration cache asks of adapters of any kind
// (verbs, libfabric).
//
// Units: bytes. Thread rule: the rank's lock.
#pragma once

#include <cstddef>
#include <memory>

namespace tern {

/// What registered memory may be used for. Reading by this rank is always allowed.
struct MemoryRights {
  bool local_write = true;  ///< receives, answers of reads and atomics may land here
  bool remote_read = false;
  bool remote_write = false;
  bool remote_atomic = false;
  bool remote() const { return remote_read || remote_write || remote_atomic; }
};

/// Unregistered by its destruction.
class RegisteredMemory {
 public:
  virtual ~RegisteredMemory() = default;
};

class MemoryRegistrar {
 public:
  /// Null: the adapter rejects it (no memory to pin, a limit, pages that may not be written).
  virtual std::unique_ptr<RegisteredMemory> register_memory(void* address, size_t bytes,
                                                            const MemoryRights& rights) = 0;

 protected:
  ~MemoryRegistrar() = default;
};

}  // namespace tern
