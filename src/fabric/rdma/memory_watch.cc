#include "fabric/rdma/memory_watch.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tern::rdma {
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

}  // namespace

std::unique_ptr<MemoryWatch> MemoryWatch::create() {
  std::unique_ptr<MemoryWatch> watch(new MemoryWatch);
  watch->fault_fd_ = open_fault_fd();
  if (watch->fault_fd_ < 0) return nullptr;
  watch->stop_fd_ = eventfd(0, EFD_CLOEXEC);
  // Signals are the application's: none of them is handled on our thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = watch->stop_fd_ >= 0 && pthread_create(&watch->thread_, nullptr, thread_main, watch.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) return watch;
  close(watch->fault_fd_);
  watch->fault_fd_ = -1;
  return nullptr;
}

MemoryWatch::~MemoryWatch() {
  if (fault_fd_ >= 0) {
    uint64_t one = 1;
    [[maybe_unused]] ssize_t written = write(stop_fd_, &one, sizeof one);
    pthread_join(thread_, nullptr);
  }
  if (stop_fd_ >= 0) close(stop_fd_);
}

// Write protection is only the door: nothing is ever protected, so no access faults.
bool MemoryWatch::watch(uint64_t begin, uint64_t end) {
  uffdio_register request{};
  request.range = {begin, end - begin};
  request.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(fault_fd_, UFFDIO_REGISTER, &request) == 0;
}

bool MemoryWatch::take_changes(std::vector<Range>& changes) {
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

void* MemoryWatch::thread_main(void* self) {
  auto& watch = *static_cast<MemoryWatch*>(self);
  pollfd fds[2] = {{watch.fault_fd_, POLLIN, 0}, {watch.stop_fd_, POLLIN, 0}};
  while (true) {
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[0].revents != 0) watch.read_events();
    if (fds[1].revents != 0) break;
  }
  // Closed here, after the last poll: whoever waits in the kernel for an event to be read goes on.
  close(watch.fault_fd_);
  return nullptr;
}

void MemoryWatch::read_events() {
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

}  // namespace tern::rdma
