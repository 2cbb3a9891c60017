// Tells when memory is given back to the system (munmap, madvise, brk, mremap, a mapping put over another), so that
// registrations kept for it can be dropped (registration_cache.h). Source: Linux userfaultfd(2), non-cooperative
// events.
//
// The kernel holds the thread that gives memory back until we have read the event; a thread of ours does that. But
// another thread can have the address range before: the kernel lets go of it first and reports afterwards. What says
// so in time is a count that the kernel keeps with the userfaultfd: raised before the range is free, lowered when the
// event has been read. So whoever finds memory in a table of watched memory asks `settled`, then `take_changes`:
//
//   A: munmap(P)            count 1, P is free, ...              event ...  count 0, munmap returns
//   B:                               mmap = P, lookup: unsettled                    lookup: settled, and P is listed
//
// The count shows as EAGAIN of an ioctl on one page of our own (UFFDIO_WRITEPROTECT, which changes nothing there). It
// was a mere flag before Linux 5.15, which one change cleared for all: such kernels give no watch.
//
// The events are read under a mutex that `take_changes` takes, too. The thread and whoever holds the mutex never
// allocate or free: the allocator could give back watched memory, and wait for the thread that is waiting for it.
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
  /// Whether the memory is this process's own. The pages of shared memory can be taken away through its file, or by
  /// another process, without a word to us. Asks for the first and the last page, which must have been touched.
  bool is_private(uint64_t begin, uint64_t end) const;
  /// True: what was given back by now, and could be in use again, is in what take_changes returns from now on. False:
  /// a change is on its way. Costs one system call.
  bool settled();
  /// Appends what was given back since the last call. False: there was more than could be kept; take everything for
  /// changed.
  bool take_changes(std::vector<Range>& changes);

 private:
  MemoryWatch() = default;
  static void* thread_main(void* self);
  void read_events();
  bool changing() const;
  bool counts_changes();

  static constexpr size_t kMaxRanges = 512;

  int fault_fd_ = -1;
  int stop_fd_ = -1;
  int pages_fd_ = -1;           ///< /proc/self/pagemap
  std::byte* probe_ = nullptr;  ///< the watched page of our own
  pthread_t thread_{};
  bool running_ = false;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  // Under the mutex:
  Range ranges_[kMaxRanges];
  size_t count_ = 0;
  bool overflow_ = false;
};

}  // namespace tern::rdma
