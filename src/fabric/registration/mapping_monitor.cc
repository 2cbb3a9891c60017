#include "fabric/registration/mapping_monitor.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/helper_signals.h"

namespace tern {
namespace {

// Older headers lack it (Linux 5.11).
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

int open_fault_fd() {
  int fd = int(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (fd < 0) return -1;
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP;
  if (ioctl(fd, UFFDIO_API, &api) == 0) return fd;
  close(fd);
  return -1;
}

uint64_t page_bytes() { return MappingMonitor::page_bytes(); }

std::byte* map_pages(size_t count) {
  void* memory = mmap(nullptr, count * page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

bool start_quietly(pthread_t& thread, void* (*function)(void*), void* argument) {
  const HelperSignals signals;
  bool started = pthread_create(&thread, nullptr, function, argument) == 0;
  if (started) pthread_setname_np(thread, "tern-memory");  // base/program_threads.h
  return started;
}

void* unmap_page(void* page) {
  munmap(page, page_bytes());
  return nullptr;
}

}  // namespace

uint64_t MappingMonitor::page_bytes() { return uint64_t(sysconf(_SC_PAGESIZE)); }

std::unique_ptr<MappingMonitor> MappingMonitor::create() {
  std::unique_ptr<MappingMonitor> watch(new MappingMonitor);
  watch->fault_fd_ = open_fault_fd();
  if (watch->fault_fd_ < 0) return nullptr;
  watch->stop_fd_ = eventfd(0, EFD_CLOEXEC);
  watch->pages_fd_ = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  watch->probe_ = map_pages(1);
  const auto probe = reinterpret_cast<uint64_t>(watch->probe_);
  if (watch->stop_fd_ >= 0 && watch->pages_fd_ >= 0 && watch->probe_ && watch->watch(probe, probe + page_bytes()) &&
      watch->counts_changes() && start_quietly(watch->thread_, thread_main, watch.get())) {
    watch->running_ = true;
    return watch;
  }
  return nullptr;
}

MappingMonitor::~MappingMonitor() {
  if (running_) {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(stop_fd_, &one, sizeof one);
    pthread_join(thread_, nullptr);
  } else if (fault_fd_ >= 0) {
    close(fault_fd_);
  }
  if (probe_) munmap(probe_, page_bytes());
  if (pages_fd_ >= 0) close(pages_fd_);
  if (stop_fd_ >= 0) close(stop_fd_);
}

// Registered for write protection only formally: nothing is ever protected, so no access faults.
bool MappingMonitor::watch(uint64_t begin, uint64_t end) {
  uffdio_register request{};
  request.range = {begin, end - begin};
  request.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(fault_fd_, UFFDIO_REGISTER, &request) == 0;
}

bool MappingMonitor::is_private(uint64_t begin, uint64_t end) const {
  constexpr uint64_t kFileOrShared = uint64_t{1} << 61;  // Linux, admin-guide/mm/pagemap
  for (uint64_t at : {begin, end - 1}) {
    uint64_t entry;
    if (pread(pages_fd_, &entry, sizeof entry, off_t(at / page_bytes() * sizeof entry)) != ssize_t(sizeof entry) ||
        (entry & kFileOrShared)) {
      return false;
    }
  }
  return true;
}

bool MappingMonitor::changing() const {
  uffdio_writeprotect nothing{};  // mode 0: no protection, as before
  nothing.range = {reinterpret_cast<uint64_t>(probe_), page_bytes()};
  return ioctl(fault_fd_, UFFDIO_WRITEPROTECT, &nothing) != 0;
}

bool MappingMonitor::settled() {
  if (!changing()) return true;
  read_events();  // a thread that gives memory back may be waiting just for that
  return !changing();
}

// Test: two threads give a page back; when the event of the first was read, the second's change must still show.
bool MappingMonitor::counts_changes() {
  std::byte* pages = map_pages(3);  // the middle one keeps the two mappings apart
  if (!pages) return false;
  std::byte* page[2] = {pages, pages + 2 * page_bytes()};
  pthread_t thread[2];
  auto start = [&](int i) {
    const auto begin = reinterpret_cast<uint64_t>(page[i]);
    return watch(begin, begin + page_bytes()) && start_quietly(thread[i], unmap_page, page[i]);
  };
  auto finish = [&](int i) {
    pollfd readable{fault_fd_, POLLIN, 0};
    while (poll(&readable, 1, -1) < 1) {
    }
    uffd_msg message;
    [[maybe_unused]] ssize_t got = read(fault_fd_, &message, sizeof message);
    pthread_join(thread[i], nullptr);
  };
  bool counts = false;
  if (start(0)) {
    pollfd readable{fault_fd_, POLLIN, 0};
    while (poll(&readable, 1, -1) < 1) {
    }
    const bool second = start(1);
    // Counts what is unmapped. Bounded: another thread may map something there.
    unsigned char resident;
    for (int i = 0; second && i < 10'000 && mincore(page[1], page_bytes(), &resident) == 0; ++i) sched_yield();
    const bool gone = second && mincore(page[1], page_bytes(), &resident) != 0;
    finish(0);
    counts = gone && changing();
    if (second) finish(1);
  }
  munmap(pages + page_bytes(), page_bytes());
  return counts;
}

bool MappingMonitor::take_changes(std::vector<Range>& changes) {
  Range copy[kMaxRanges];
  pthread_mutex_lock(&mutex_);
  size_t count = count_;
  bool complete = !overflow_;
  for (size_t i = 0; i < count; ++i) copy[i] = ranges_[i];
  count_ = 0;
  overflow_ = false;
  pthread_mutex_unlock(&mutex_);
  changes.insert(changes.end(), copy, copy + count);
  return complete;
}

void* MappingMonitor::thread_main(void* self) {
  auto& watch = *static_cast<MappingMonitor*>(self);
  pollfd fds[2] = {{watch.fault_fd_, POLLIN, 0}, {watch.stop_fd_, POLLIN, 0}};
  while (true) {
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[0].revents != 0) watch.read_events();
    if (fds[1].revents != 0) break;
  }
  // What the owner did before it wrote is over: reading says so to TSan, polling does not.
  uint64_t one;
  [[maybe_unused]] ssize_t got = read(watch.stop_fd_, &one, sizeof one);
  // Closed here, after the last poll: threads that wait in the kernel for an event to be read continue.
  close(watch.fault_fd_);
  return nullptr;
}

void MappingMonitor::read_events() {
  pthread_mutex_lock(&mutex_);
  uffd_msg message;
  while (read(fault_fd_, &message, sizeof message) == ssize_t(sizeof message)) {
    Range range{};
    switch (message.event) {
      case UFFD_EVENT_UNMAP:
      case UFFD_EVENT_REMOVE: range = {message.arg.remove.start, message.arg.remove.end}; break;
      case UFFD_EVENT_REMAP: range = {message.arg.remap.from, message.arg.remap.from + message.arg.remap.len}; break;
      default: continue;
    }
    if (count_ == kMaxRanges) {
      overflow_ = true;
    } else {
      ranges_[count_++] = range;
    }
  }
  pthread_mutex_unlock(&mutex_);
}

}  // namespace tern
