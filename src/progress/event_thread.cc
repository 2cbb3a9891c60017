#include "progress/event_thread.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include "base/assert.h"
#include "base/limits.h"

namespace tern {
namespace {

constexpr uint32_t kPath = 0, kTimer = 1, kStop = 2;

/// What is here and is not moved by so many polls is mostly a flag that a thread of the application waits for (node
/// memory): it needs the lock to see it. The timer says when to look again.
constexpr int kMostVainPolls = 4;

/// Arming and disarming in vain cost 2 us, and what arrives meanwhile wakes the thread. So often in a row, and the
/// application is believed to stay inside.
constexpr int kMostInVain = 2;

/// Whoever leaves so often with nothing pending, in less than 3 us each time, would rather have a timer that runs: to
/// ask what is pending takes 2 to 3 ns.
constexpr uint32_t kIdleLeaves = 64;
constexpr uint64_t kQuickLeaves_ns = kIdleLeaves * 3000;

/// How soon a look is taken at what is only not known to have arrived. Its connection seldom breaks just then.
constexpr uint64_t kLater_ns = 100'000'000;
/// A timer that ends in less than this counts as ended.
constexpr uint64_t kEnding_ns = 1'000'000;

/// A message that was not taken for want of memory is lost, and with it whoever waits for it.
constexpr const char* kInTheBackground = "moving messages while the application computes";

int membarrier(int command) { return int(syscall(SYS_membarrier, command, 0, 0)); }
void barrier_everywhere() {
  [[maybe_unused]] const int result = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  TERN_ASSERT(result == 0);
}

void watch(int epoll, int operation, int fd, uint32_t events, uint32_t name) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = name;
  [[maybe_unused]] const int result = epoll_ctl(epoll, operation, fd, &event);
  TERN_ASSERT(result == 0);
}

}  // namespace

// First grace: a rank away for less than this computes nothing worth a wake-up, which takes 30 to 40 us to the other
// core. A transfer at 1 Gbit/s takes 50 us for 6 KiB. Longest: two ticks take some 40 us from two ranks that exchange
// messages all the time: 0.6 %; from ranks that share cores more, and all of them tick.
constinit const EventThread::Patience EventThread::kUncrowded{50'000, 6'400'000, 30'000};
constinit const EventThread::Patience EventThread::kCrowded{400'000, 25'600'000, 400'000};

EventThread::EventThread(ProgressEngine& engine, RankLock& lock, std::function<Need()> needed, const Patience& patience)
    : engine_(engine), lock_(lock), needed_(std::move(needed)), patience_(patience) {
  // Where the kernel has no membarrier (and under a checker that cannot see it) the mutex does the same, more slowly.
#if defined(__SANITIZE_THREAD__)
  lock_.enable();
#else
  if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0) lock_.enable();
#endif
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  stop_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || timer_ < 0 || stop_fd_ < 0) {
    const int why = errno;
    close_descriptors();
    throw std::system_error(why, std::generic_category());
  }
  watch(epoll_, EPOLL_CTL_ADD, timer_, EPOLLIN | EPOLLET,
        kTimer);  // edges: nobody reads it, setting it again makes the next
  watch(epoll_, EPOLL_CTL_ADD, stop_fd_, EPOLLIN, kStop);
  // Signals are the application's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] {
      try {
        run();
      } catch (const std::bad_alloc&) {
        end_without_memory(kInTheBackground);
      }
    });
  } catch (const std::system_error&) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    close_descriptors();
    throw;
  }
  pthread_setname_np(thread_.native_handle(), "tern-events");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void EventThread::close_descriptors() {
  for (int fd : {stop_fd_, timer_, epoll_}) {
    if (fd >= 0) close(fd);
  }
}

EventThread::~EventThread() {
  stop_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_fd_, &one, sizeof one);
  const uint32_t depth = lock_.release_all();  // the thread may stand before the mutex
  thread_.join();
  lock_.reacquire(depth);
  forget_arming();
  close_descriptors();
}

// Not watched at all while the application is inside: the kernel would tell this set of every message (TCP, 8 B: 0.3
// us).
void EventThread::watch_paths(bool on) {
  if (!on && !watching_paths_) return;
  const int operation = !on ? EPOLL_CTL_DEL : watching_paths_ ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  for (Pollable* path : engine_.pollables()) {
    if (path->wait_fd() >= 0) watch(epoll_, operation, path->wait_fd(), EPOLLIN | EPOLLONESHOT, kPath);
  }
  watching_paths_ = on;
}

// The timer is to end if the application has not come or gone since `turns`.
void EventThread::look_after(uint64_t grace_ns, uint32_t turns) {
  seen_.store(turns, std::memory_order_relaxed);
  watch_.store(Watch::timer, std::memory_order_relaxed);
  set_timer(grace_ns);
}

// Nothing is watched, but for a look after some time. The timer is not set each time this begins and ends.
void EventThread::look_later() {
  if (watch_.load(std::memory_order_relaxed) == Watch::later) return;
  watch_.store(Watch::later, std::memory_order_relaxed);
  let_timer_end_by(engine_.clock().now_ns() + kLater_ns);
}

// False: somebody else has changed it meanwhile, and answers for what it is now.
bool EventThread::end_watch(Watch which) {
  return watch_.compare_exchange_strong(which, Watch::nobody, std::memory_order_relaxed);
}

void EventThread::set_timer(uint64_t after_ns) {
  timer_ends_ns_.store(engine_.clock().now_ns() + after_ns, std::memory_order_relaxed);
  const itimerspec when{{0, 0}, {time_t(after_ns / 1'000'000'000), long(after_ns % 1'000'000'000)}};
  [[maybe_unused]] const int result = timerfd_settime(timer_, 0, &when, nullptr);
  TERN_ASSERT(result == 0);
}

// An earlier end will do: then the thread finds what to do next. (On a virtual machine to set a timer takes up to 6
// us.) After `watch_` has changed: an end that comes after this is seen with it.
void EventThread::let_timer_end_by(uint64_t latest_ns) {
  const uint64_t now = engine_.clock().now_ns(), ends = timer_ends_ns_.load(std::memory_order_relaxed);
  if (ends > now + kEnding_ns && ends <= latest_ns) return;
  set_timer(latest_ns > now ? latest_ns - now : 1);
}

// --- The application's side.

Need EventThread::need() {
  const Need needed = pending();
  if (needed == Need::nothing && ++idle_leaves_ % kIdleLeaves == 0) [[unlikely]]
    on_idle_leaves();
  return needed;
}

// The application's call is over, and has nobody any more to give an error to.
Need EventThread::take_over(bool again) try {
  if (again) left_armed_ns_ = 0;  // the thread was woken before the application was outside
  forget_arming();
  Need needed = pending();
  if (needed == Need::now && stays_away_.load(std::memory_order_relaxed)) {
    if (arm()) {
      left_armed_ns_ = engine_.clock().now_ns();
      return needed;
    }
    needed = pending();
  }
  if (needed == Need::now) look_after(patience_.first_grace_ns, lock_.turns() + 1);  // it is still inside
  if (needed == Need::later) look_later();
  return needed;
} catch (const std::bad_alloc&) {
  end_without_memory(kInTheBackground);
}

void EventThread::on_idle_leaves() {
  const uint64_t now = engine_.clock().now_ns(), before = idle_leaves_ns_;
  idle_leaves_ns_ = now;
  if (now - before < kQuickLeaves_ns && !watches()) look_after(patience_.first_grace_ns, lock_.turns() + 1);
}

// What is here is handled first: it would wake the thread at once, on this core, before the application is outside. The
// last look comes just before the thread watches: in a program of steps what others send then arrives just now.
bool EventThread::arm() {
  for (int vain = 0; vain != kMostVainPolls && pending() == Need::now;) {
    const bool armed = engine_.arm_all();
    if (engine_.poll_all() != 0) {
      vain = 0;
    } else if (armed && pending() == Need::now) {
      sleep_on_paths();
      return true;
    } else {
      ++vain;
    }
    if (armed) engine_.disarm_all();  // or the closer look has found everything done
  }
  return false;
}

void EventThread::say_armed(bool armed) {
  paths_armed_ = armed;
  lock_.expect_helper(armed);
}

void EventThread::sleep_on_paths() {
  say_armed(true);
  watch_.store(Watch::paths, std::memory_order_relaxed);
  watch_paths(true);
  deadline_ns_ = ~uint64_t{0};
  follow_deadline();
}

// A burst of calls that do not wait (MPI_Isend) finds the paths armed each time.
void EventThread::note_leave() {
  const uint64_t now = engine_.clock().now_ns();
  if (stays_inside(now)) {
    forget_arming();
    return;
  }
  left_armed_ns_ = now;
  follow_deadline();
}

void EventThread::follow_deadline() {
  const uint64_t deadline = engine_.pollable_deadline_ns();
  if (deadline >= deadline_ns_) return;
  deadline_ns_ = deadline;
  let_timer_end_by(deadline);
}

// The application is back.
void EventThread::forget_arming() {
  if (!paths_armed_) return;
  say_armed(false);
  end_watch(Watch::paths);
  watch_paths(false);
  if (engine_.idle().sleepers == 0) engine_.disarm_all();  // else another thread sleeps on them
  if (left_armed_ns_ != 0) stays_inside(engine_.clock().now_ns());
  left_armed_ns_ = 0;
}

// The application is back. True: so soon so often that it does not stay away any more.
bool EventThread::stays_inside(uint64_t now_ns) {
  const bool soon = left_armed_ns_ != 0 && now_ns - left_armed_ns_ < patience_.soon_ns;
  in_vain_ = soon ? in_vain_ + 1 : 0;
  if (in_vain_ < kMostInVain) return false;
  in_vain_ = 0;
  left_armed_ns_ = 0;
  stays_away_.store(false, std::memory_order_relaxed);
  return true;
}

// --- The thread's side.

void EventThread::run() {
  while (true) {
    epoll_event events[8];
    const int count = epoll_wait(epoll_, events, 8, -1);
    if (stop_) return;
    bool tick = false;
    for (int i = 0; i < count; ++i) tick = tick || events[i].data.u32 == kTimer;
    const Watch watch = watch_.load(std::memory_order_relaxed);
    if (watch == Watch::paths && count > 0) on_event();
    if (watch == Watch::timer && tick) on_timer();
    if (watch == Watch::later && tick) on_later();
  }
}

void EventThread::on_timer() {
  ++engine_.counters().event_ticks;
  const uint32_t turns = lock_.turns();
  if (turns != seen_.load(std::memory_order_relaxed)) {
    seen_.store(turns, std::memory_order_relaxed);
    // A look after a long time may miss every one of many absences: a short look follows.
    looks_closely_ = !looks_closely_;
    if (!looks_closely_) grace_ns_ = std::clamp(2 * grace_ns_, patience_.first_grace_ns, patience_.longest_grace_ns);
    set_timer(looks_closely_ ? patience_.first_grace_ns : grace_ns_);
    return;
  }
  end_watch(Watch::timer);
  if (!lock_.enter_as_helper(barrier_everywhere)) return;
  switch (pending()) {
    case Need::now:
      stays_away_.store(true, std::memory_order_relaxed);
      work();
      break;
    case Need::later: look_later(); break;
    case Need::nothing: break;
  }
  lock_.leave_as_helper();
}

void EventThread::on_later() {
  ++engine_.counters().event_ticks;
  if (!end_watch(Watch::later)) return;
  if (!lock_.enter_as_helper(barrier_everywhere)) return;
  if (pending() != Need::nothing) work();
  lock_.leave_as_helper();
}

void EventThread::on_event() {
  if (!end_watch(Watch::paths)) return;
  ++engine_.counters().event_wakes;
  if (!lock_.enter_as_helper(barrier_everywhere)) {
    ++engine_.counters().event_wakes_vain;
    return;
  }
  const uint64_t began_ns = engine_.tracer() ? Recorder::now_ns() : 0;
  work();
  if (Recorder* tracer = engine_.tracer()) tracer->add_event_thread_work(began_ns);
  lock_.leave_as_helper();
}

void EventThread::work() {
  if (engine_.idle().sleepers != 0) return;  // a thread of the application was woken by the same event
  if (paths_armed_) {
    engine_.disarm_all();
    say_armed(false);
  }
  left_armed_ns_ = 0;  // it was not in vain
  end_watch(Watch::paths);
  int vain = 0;
  do {
    int handled = 0;
    do {
      handled += engine_.poll_all();
      if (lock_.application_waits()) break;
    } while (!lock_.enabled() && engine_.arriving());  // who waits for the mutex is not seen: it is given up instead
    engine_.counters().event_handled += uint64_t(handled);
    vain = handled == 0 ? vain + 1 : 0;
    if (lock_.application_waits()) return;  // it hands over again when it leaves
    if (vain == kMostVainPolls) {
      grace_ns_ = std::clamp(2 * grace_ns_, patience_.first_grace_ns, patience_.longest_grace_ns);
      look_after(grace_ns_, lock_.turns());
      return;
    }
  } while (!engine_.arm_all());  // armed or not: with this, senders hear how far we are
  grace_ns_ = 0;
  const Need needed = pending();
  if (needed == Need::now) {
    sleep_on_paths();
    return;
  }
  engine_.disarm_all();
  watch_paths(false);
  if (needed == Need::later) look_later();
}

}  // namespace tern
