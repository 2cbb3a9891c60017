#include "progress/kernel_wait.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <system_error>

#include "base/assert.h"

namespace tern {

KernelWait::KernelWait() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || wake_fd_ < 0) throw std::system_error(errno, std::generic_category());
  KernelWait::watch(wake_fd_);
}

KernelWait::~KernelWait() {
  close(wake_fd_);
  close(epoll_);
}

void KernelWait::yield() { sched_yield(); }

int64_t preemptions_of_this_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

int runnable_tasks() {
  const int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return INT_MAX;
  char text[128];
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  text[std::max<ssize_t>(length, 0)] = '\0';
  int runnable;
  return std::sscanf(text, "%*s %*s %*s %d/", &runnable) == 1 ? runnable : INT_MAX;
}

void KernelWait::watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  [[maybe_unused]] const int added = epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
  TERN_ASSERT(added == 0 || errno == EEXIST);
}

// The deadline is rounded up: one poll a little late instead of many empty ones.
void KernelWait::sleep(uint64_t deadline_ns, uint64_t now_ns) {
  int timeout_ms = -1;
  if (deadline_ns != ~uint64_t{0})
    timeout_ms = deadline_ns <= now_ns ? 0 : int(std::min<uint64_t>((deadline_ns - now_ns) / 1'000'000 + 1, 1'000'000));
  epoll_event events[8];
  epoll_wait(epoll_, events, 8, timeout_ms);
}

void KernelWait::wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
}

void KernelWait::forget_wake() {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(wake_fd_, &count, sizeof count);
}

}  // namespace tern
