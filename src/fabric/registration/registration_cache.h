// Registrations of user memory, kept for the next use: registering costs a system call and the pinning of every page,
// which for a few hundred kilobytes takes as long as the transfer itself.
//
// A kept registration is wrong as soon as the application gives the memory back: the adapter continues to read and
// write the old pages, while a new mapping at the same address has other pages. A library must not intercept munmap or
// free, and the allocator gives memory back by munmap, madvise and brk alike. So the kernel watches what is kept, and
// at every hit the watch is asked whether a change is being reported (memory_watch.h; one system call). While one is,
// registrations are made for one operation each. If the kernel has no watch, nothing is kept beyond the operation that
// uses it; nor is shared memory, which others can take away.
//
// Memory that is given back while an operation uses it is a mistake of the application; the registration lives until
// the operation is over and is then dropped.
//
// Units: bytes. Thread rule: the rank's lock.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/intrusive_list.h"
#include "fabric/registration/mapping_monitor.h"
#include "fabric/registration/registered_memory.h"

namespace tern {

/// A stretch of registered memory. Owned by the cache; valid between acquire and release.
struct Registration : ListHook<Registration> {  // hook: in use, or idle
  uint64_t begin = 0, end = 0;
  MemoryRights rights;
  bool kept = false;  ///< in its table: found by later acquires
  int users = 0;
  std::unique_ptr<RegisteredMemory> memory;
};

/// Which registrations are kept between operations.
enum class Keep : uint8_t {
  nothing,
  watched,  ///< those of memory that the kernel watches
  trusted,  ///< all: for simulated adapters, which pin nothing, so a kept one is never wrong
};

class RegistrationCache {
 public:
  /// Keeps at most `kept_bytes` of unused registrations. `watch`: for Keep::watched. `adapter` and `watch` outlive
  /// the cache.
  RegistrationCache(MemoryRegistrar& adapter, Keep keep, MappingMonitor* watch, uint64_t kept_bytes);
  /// With a watch of its own where `wanted` needs one, else (or with no bytes to keep) without kept registrations.
  static std::unique_ptr<RegistrationCache> create(MemoryRegistrar& adapter, Keep wanted, uint64_t kept_bytes);
  /// Destroys also what is still in use (the library's own buffers are, to the end).
  ~RegistrationCache();

  /// A registration that covers the memory. Peers may do there exactly what `rights` says, and only on bytes that some
  /// operation has asked for; this rank's own accesses may use any registration that allows them. Null: the adapter
  /// rejects it (no memory to pin, a limit, pages that may not be written).
  Registration* acquire(const void* address, size_t bytes, const MemoryRights& rights);
  void release(Registration& registration);

  // For tests and the summary of a run.
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }
  size_t live() const { return live_; }

 private:
  using Table = std::map<uint64_t, Registration*>;  ///< by begin; they do not overlap
  Table& table(const MemoryRights& rights);
  static Registration* find(Table& table, uint64_t begin, uint64_t end);
  Registration* find(uint64_t begin, uint64_t end, const MemoryRights& rights);
  void drop_overlapping(Table& table, uint64_t begin, uint64_t end);
  void drop_changed();
  void drop_overlapping(uint64_t begin, uint64_t end);
  void unkeep(Registration& registration);
  void shrink(uint64_t limit);
  void destroy(Registration& registration);

  std::unique_ptr<MappingMonitor> own_watch_;  ///< of `create`
  MemoryRegistrar& adapter_;
  const Keep keep_;
  MappingMonitor* const watch_;
  const uint64_t kept_limit_;
  uint64_t idle_bytes_ = 0;
  std::array<Table, 16> tables_;             ///< by rights
  IntrusiveList<Registration> used_, idle_;  ///< idle: the longest idle first
  std::vector<MappingMonitor::Range> changes_;
  uint64_t hits_ = 0, misses_ = 0;
  size_t live_ = 0;
};

/// A registration that is released when its holder is destroyed.
struct RegistrationRelease {
  RegistrationCache* cache = nullptr;
  void operator()(Registration* registration) const { cache->release(*registration); }
};
using HeldRegistration = std::unique_ptr<Registration, RegistrationRelease>;

}  // namespace tern
