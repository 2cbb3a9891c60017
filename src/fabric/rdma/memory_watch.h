// Tells when memory is given back to the system (munmap, madvise, brk, mremap, a mapping put over another), so that
// registrations kept for it can be dropped (registration_cache.h). Source: Linux userfaultfd(2), non-cooperative
// events.
//
// The kernel holds the thread that gives memory back until we have read the event. A thread of ours does that, under a
// mutex that `take_changes` takes, too: once the application's munmap has returned, the change is either in the list or
// the mutex is still held, and no lookup can pass it by. That thread and whoever holds the mutex never allocate or
// free: the allocator could give back watched memory, and wait for the thread that is waiting for it.
//
// Watched memory behaves as before, except that the kernel does not merge its mappings or make huge pages of it later.
// No special right is needed (UFFD_USER_MODE_ONLY); seccomp profiles of containers often forbid the call, and then
// there is no watch.
//
// Thread rule: watch and take_changes under the rank's lock; memory may be given back by any thread.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tern::rdma {

class MemoryWatch {
 public:
  struct Range {
    uint64_t begin, end;
  };

  /// Null where the kernel does not offer it.
  static std::unique_ptr<MemoryWatch> create();
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  /// From now on changes of these whole pages are reported, until they are given back. False: this memory cannot be
  /// watched (a file's, a device's, not mapped throughout).
  bool watch(uint64_t begin, uint64_t end);
  /// Appends what was given back since the last call. False: there was more than could be kept; take everything for
  /// changed.
  bool take_changes(std::vector<Range>& changes);

 private:
  MemoryWatch() = default;
  static void* thread_main(void* self);
  void read_events();

  static constexpr size_t kMaxRanges = 512;

  int fault_fd_ = -1;
  int stop_fd_ = -1;
  pthread_t thread_{};
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  // Under the mutex:
  Range ranges_[kMaxRanges];
  size_t count_ = 0;
  bool overflow_ = false;
};

}  // namespace tern::rdma
