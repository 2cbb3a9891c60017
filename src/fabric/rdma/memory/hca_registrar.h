// HcaRegistrar: an RDMA adapter as the registration cache sees it (fabric/registration/).
//
// Thread rule: the rank's lock.
#pragma once

#include <memory>

#include "fabric/rdma/verbs/hca.h"
#include "fabric/registration/registration_cache.h"

namespace tern::rdma {

class HcaRegistrar final : public MemoryRegistrar {
 public:
  /// The adapter outlives this.
  explicit HcaRegistrar(Hca& hca) : hca_(hca) {}
  std::unique_ptr<RegisteredMemory> register_memory(void* address, size_t bytes, const MemoryRights& rights) override {
    std::unique_ptr<MemoryRegion> region;
    const Access access{rights.local_write, rights.remote_read, rights.remote_write, rights.remote_atomic};
    if (hca_.register_memory(address, bytes, access, region)) return nullptr;
    return region;
  }

 private:
  Hca& hca_;
};

/// Of a registration that an HcaRegistrar has made.
inline const MemoryRegion& region_of(const Registration& registration) {
  return static_cast<const MemoryRegion&>(*registration.memory);
}

}  // namespace tern::rdma
