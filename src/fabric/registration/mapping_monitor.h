// Reports memory that is given back to the system (munmap, madvise, brk, mremap, a mapping put over another), so that
// registrations kept for it can be dropped (registration_cache.h). Source: Linux userfaultfd(2), non-cooperative
// events.
//
// The kernel stops the thread that gives memory back until the event is read; a thread of this library reads it. But
// another thread can get the address range earlier: the kernel frees it first and reports afterwards. A count that the
// kernel keeps with the userfaultfd is in time: it is raised before the range is free, and lowered when the event has
// been read. So a look-up in a table of watched memory asks `settled` first, then `take_changes`:
//
//   A: munmap(P)            count 1, P is free, ...              event ...  count 0, munmap returns
//   B:                               mmap = P, lookup: unsettled                    lookup: settled, and P is listed
//
// The count shows as EAGAIN of an ioctl on one page of this object (UFFDIO_WRITEPROTECT, which changes nothing there).
// Before Linux 5.15 it was a flag, which one change cleared for all: such kernels give no watch.
//
// The events are read under a mutex that `take_changes` takes, too. The thread, and every holder of the mutex, never
// allocates or frees: the allocator could give back watched memory, and wait for the thread that waits for it.
//
// Watched memory behaves as before, except that the kernel does not merge its mappings or make huge pages of it later.
// No special right is needed (UFFD_USER_MODE_ONLY); seccomp profiles of containers often forbid the call, and then
// there is no watch.
//
// Thread rule: watch and take_changes under the rank's lock; memory may be given back by any thread.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tern {

class MappingMonitor {
 public:
  struct Range {
    uint64_t begin, end;
  };

  /// Null where the kernel does not offer it.
  static std::unique_ptr<MappingMonitor> create();
  ~MappingMonitor();
  MappingMonitor(const MappingMonitor&) = delete;
  MappingMonitor& operator=(const MappingMonitor&) = delete;

  /// Of a page: what is watched, and what adapters pin.
  static uint64_t page_bytes();
  /// From now on changes of these whole pages are reported, until they are given back. False: this memory cannot be
  /// watched (a file's, a device's, not mapped throughout).
  bool watch(uint64_t begin, uint64_t end);
  /// Whether the memory is private to this process. Shared memory can be taken away through its file, or by another
  /// process, without an event. Asks for the first and the last page, which must have been touched.
  bool is_private(uint64_t begin, uint64_t end) const;
  /// True: all memory given back so far that could be in use again is in what take_changes returns from now on. False:
  /// a change is being reported. Costs one system call.
  bool settled();
  /// Appends what was given back since the last call. False: there was more than could be kept; take everything for
  /// changed.
  bool take_changes(std::vector<Range>& changes);

 private:
  MappingMonitor() = default;
  static void* thread_main(void* self);
  void read_events();
  bool changing() const;
  bool counts_changes();

  static constexpr size_t kMaxRanges = 512;  ///< of unread changes, 8 KiB; with more everything counts as changed

  int fault_fd_ = -1;
  int stop_fd_ = -1;
  int pages_fd_ = -1;           ///< /proc/self/pagemap
  std::byte* probe_ = nullptr;  ///< the watched page of this object
  pthread_t thread_{};
  bool running_ = false;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  // Under the mutex:
  Range ranges_[kMaxRanges];
  size_t count_ = 0;
  bool overflow_ = false;
};

}  // namespace tern
