#include "progress/event_thread.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/assert.h"

namespace tern {
namespace {

constexpr uint32_t kInner = 0, kStop = 1;

/// What is here and is not moved by so many polls is a flag that a thread of the application waits for (node memory): it
/// needs the lock to see it.
constexpr int kMostVainPolls = 4;

int membarrier(int command) { return int(syscall(SYS_membarrier, command, 0, 0)); }
void barrier_everywhere() {
  [[maybe_unused]] const int result = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  TERN_ASSERT(result == 0);
}

void watch(int epoll, int fd, uint32_t events, uint32_t name, int operation = EPOLL_CTL_ADD) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = name;
  [[maybe_unused]] const int result = epoll_ctl(epoll, operation, fd, &event);
  TERN_ASSERT(result == 0);
}

}  // namespace

EventThread::EventThread(ProgressEngine& engine, RankLock& lock, std::function<bool()> pending)
    : engine_(engine), lock_(lock), pending_(std::move(pending)) {
  // Where the kernel has no membarrier (and under a checker that cannot see it) the mutex does the same, more slowly.
#if defined(__SANITIZE_THREAD__)
  lock_.enable();
#else
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0) lock_.enable();
#endif
  outer_ = epoll_create1(EPOLL_CLOEXEC);
  inner_ = epoll_create1(EPOLL_CLOEXEC);
  stop_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  TERN_ASSERT(outer_ >= 0 && inner_ >= 0 && stop_fd_ >= 0);
  for (Path* path : engine_.paths()) {
    if (path->wait_fd() >= 0) watch(inner_, path->wait_fd(), EPOLLIN, 0);
  }
  watch(outer_, inner_, 0, kInner);
  watch(outer_, stop_fd_, EPOLLIN, kStop);
  // Signals are the application's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

EventThread::~EventThread() {
  stop_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_fd_, &one, sizeof one);
  const uint32_t depth = lock_.release_all();  // the thread may stand before the mutex
  thread_.join();
  lock_.reacquire(depth);
  if (is_armed()) engine_.disarm_all();
  close(stop_fd_);
  close(inner_);
  close(outer_);
}

void EventThread::set_descriptor(bool on) {
  watch(outer_, inner_, on ? uint32_t(EPOLLIN | EPOLLONESHOT) : 0, kInner, EPOLL_CTL_MOD);
}

bool EventThread::arm() {
  int vain = 0;
  while (!engine_.arm_all()) {  // something is here: it is handled first
    vain = engine_.poll_every_path() == 0 ? vain + 1 : 0;
    if (vain == kMostVainPolls || !is_needed()) return false;
  }
  const uint64_t deadline = engine_.path_deadline_ns();
  if (deadline_ns_.exchange(deadline, std::memory_order_relaxed) != deadline && deadline != ~uint64_t{0}) {
    // The thread may be asleep with another deadline.
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(stop_fd_, &one, sizeof one);
  }
  armed_.store(true, std::memory_order_relaxed);
  set_descriptor(true);
  return true;
}

void EventThread::stand_aside() {
  if (!is_armed()) return;
  set_descriptor(false);
  armed_.store(false, std::memory_order_relaxed);
  if (engine_.idle().sleepers == 0) engine_.disarm_all();  // else another thread sleeps on them
}

int EventThread::timeout_ms() const {
  if (!is_armed()) return -1;
  const uint64_t deadline = deadline_ns_.load(std::memory_order_relaxed);
  if (deadline == ~uint64_t{0}) return -1;
  const uint64_t now = engine_.clock().now_ns();
  return deadline <= now ? 0 : int(std::min<uint64_t>((deadline - now) / 1'000'000 + 1, 1'000'000));
}

void EventThread::run() {
  pthread_setname_np(pthread_self(), "tern-events");
  while (true) {
    epoll_event events[2];
    const int count = epoll_wait(outer_, events, 2, timeout_ms());
    if (stop_) return;
    bool due = count == 0;
    for (int i = 0; i < count; ++i) {
      if (events[i].data.u32 == kInner) due = true;
      uint64_t ignored;
      if (events[i].data.u32 == kStop) [[maybe_unused]] const ssize_t got = read(stop_fd_, &ignored, sizeof ignored);
    }
    if (!due) continue;  // only the deadline has changed
    ++counters_.wakes;
    armed_.store(false, std::memory_order_relaxed);
    if (!lock_.enter_as_helper(barrier_everywhere)) {
      ++counters_.useless;
      continue;
    }
    work();
    lock_.leave_as_helper();
  }
}

void EventThread::work() {
  if (engine_.idle().sleepers != 0) return;  // a thread of the application was woken by the same event
  engine_.disarm_all();
  int vain = 0;
  do {
    const int handled = engine_.poll_every_path();
    counters_.handled += uint64_t(handled);
    vain = handled == 0 ? vain + 1 : 0;
    // In both cases somebody of the application is inside and arms again when it leaves.
    if (lock_.application_waits() || vain == kMostVainPolls) return;
  } while (!engine_.arm_all());  // armed or not: with this, senders hear how far we are
  if (!is_needed()) {
    engine_.disarm_all();
    return;
  }
  deadline_ns_.store(engine_.path_deadline_ns(), std::memory_order_relaxed);
  armed_.store(true, std::memory_order_relaxed);
  set_descriptor(true);
}

}  // namespace tern
