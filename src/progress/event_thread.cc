#include "progress/event_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "base/assert.h"
#include "base/helper_signals.h"
#include "base/hints.h"
#include "base/limits.h"
#include "base/looks.h"
#include "base/membarrier.h"
#include "progress/adaptive_linger.h"

namespace tern {
namespace {

/// What an event of epoll belongs to.
constexpr uint32_t kPath = 0, kTimer = 1, kCall = 2;

/// What sched_setattr takes, in its first version; glibc has it only since 2.41.
struct SchedulerAttributes {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

/// The shortest time slice that Linux knows for an ordinary thread.
constexpr uint64_t kSlice_ns = 100'000;

// The calling thread's. Older kernels, and other policies than the ordinary one, know no such slices.
void ask_for_short_slices() {
  SchedulerAttributes attributes{};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0 || attributes.policy != SCHED_OTHER) return;
  attributes.flags = 0;
  attributes.runtime = kSlice_ns;
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
}

void watch(int epoll, int operation, int fd, uint32_t events, uint32_t name) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = name;
  [[maybe_unused]] const int result = epoll_ctl(epoll, operation, fd, &event);
  TERN_ASSERT(result == 0);
}

}  // namespace

EventThread::EventThread(ProgressEngine& engine, bool lingers)
    : engine_(engine), lingers_(lingers), has_barrier_(register_barrier_everywhere()) {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  call_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || timer_ < 0 || call_fd_ < 0) {
    const int why = errno;
    close_descriptors();
    throw std::system_error(why, std::generic_category());
  }
  // Edge-triggered: the timer is never read; setting it again makes the next event.
  watch(epoll_, EPOLL_CTL_ADD, timer_, EPOLLIN | EPOLLET, kTimer);
  watch(epoll_, EPOLL_CTL_ADD, call_fd_, EPOLLIN, kCall);
}

EventThread::~EventThread() {
  TERN_ASSERT(!thread_.joinable());
  close_descriptors();
}

void EventThread::close_descriptors() {
  for (int fd : {call_fd_, timer_, epoll_}) {
    if (fd >= 0) close(fd);
  }
}

void EventThread::start(EventClient& turns) {
  const HelperSignals signals;
  thread_ = std::thread([this, &turns] {
    try {
      run(turns);
    } catch (const std::bad_alloc&) {
      end_without_memory(kInTheBackground);
    }
  });
  pthread_setname_np(thread_.native_handle(), "tern-events");
}

void EventThread::call() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(call_fd_, &one, sizeof one);
}

void EventThread::stop() {
  TERN_DEBUG_ASSERT(!stop_ && thread_.joinable());
  stop_ = true;
  call();
  thread_.join();
}

// Only the thread itself turns it off.
void EventThread::poll_always(bool on) {
  if (polls_.exchange(on) != on && on) call();
}

void EventThread::set_timer(uint64_t after_ns) {
  const itimerspec when{{0, 0}, {time_t(after_ns / 1'000'000'000), long(after_ns % 1'000'000'000)}};
  [[maybe_unused]] const int result = timerfd_settime(timer_, 0, &when, nullptr);
  TERN_ASSERT(result == 0);
}

void EventThread::watch_paths(bool on) {
  const auto& paths = engine_.pollables();
  const size_t count = on ? paths.size() : watched_;  // one may have been added meanwhile
  for (size_t i = 0; i < count; ++i) {
    const int operation = !on ? EPOLL_CTL_DEL : i < watched_ ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (paths[i]->wait_fd() >= 0) watch(epoll_, operation, paths[i]->wait_fd(), EPOLLIN | EPOLLONESHOT, kPath);
  }
  watched_ = on ? count : 0;
  TERN_DEBUG_ASSERT(watched_ <= paths.size());
}

void EventThread::barrier() { barrier_everywhere(); }

int EventThread::look(epoll_event* events, int most, uint64_t until_ns) {
  int count;
  do {
    count = epoll_wait(epoll_, events, most, 0);
  } while (count == 0 && engine_.clock().now_ns() < until_ns);
  return count;
}

void EventThread::run(EventClient& turns) {
  ask_for_short_slices();
  AdaptiveLinger linger;
  uint64_t handled_ns = 0;  // when the last message was
  bool looks = false;
  while (!stop_) {
    if (polls_) {
      take_turns(turns);
      continue;
    }
    epoll_event events[8];
    int count = looks ? look(events, 8, handled_ns + AdaptiveLinger::kLook_ns) : 0;
    const bool sleeps = count <= 0;
    if (sleeps) count = epoll_wait(epoll_, events, 8, -1);
    bool tick = false, ready = false, called = false;
    for (int i = 0; i < count; ++i) {
      tick = tick || events[i].data.u32 == kTimer;
      ready = ready || events[i].data.u32 == kPath;
      called = called || events[i].data.u32 == kCall;
    }
    if (ready && !sleeps) linger.on_found();
    else if (looks) linger.on_none();
    if (ready && sleeps) linger.on_woken(engine_.clock().now_ns() - handled_ns);
    uint64_t calls;
    if (called) static_cast<void>(!read(call_fd_, &calls, sizeof calls));
    if (stop_) break;
    const Woken woken = turns.on_wake(tick, ready);
    looks = false;
    if (!ready || woken == Woken::idle) continue;
    looks = linger.looks_after(woken == Woken::answered) && lingers_;
    handled_ns = engine_.clock().now_ns();
  }
}

// It never sleeps, but lets those run that want its core.
void EventThread::take_turns(EventClient& turns) {
  for (uint32_t empty = 0; polls_ && !stop_;) {
    if (turns.on_turn()) empty = 0;
    else if (++empty < limits_of(Look::turn).looks) cpu_pause();
    else sched_yield();
  }
}

}  // namespace tern
