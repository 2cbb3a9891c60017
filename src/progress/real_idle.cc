#include "progress/real_idle.h"

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

#include "base/assert.h"
#include "base/hints.h"
#include "progress/engine.h"

namespace tern {
namespace {

/// Counts a sleep and its time. Begins and ends under the rank's lock.
class Nap {
 public:
  explicit Nap(ProgressEngine& engine) : engine_(engine), since_ns_(engine.clock().now_ns()) {
    ++engine.counters().sleeps;
  }
  ~Nap() {
    const uint64_t lasted = engine_.clock().now_ns() - since_ns_;
    engine_.counters().asleep += lasted;
    if (Recorder* tracer = engine_.tracer()) tracer->add(record::EventKind::sleep, since_ns_, lasted);
  }
  Nap(const Nap&) = delete;
  Nap& operator=(const Nap&) = delete;

 private:
  ProgressEngine& engine_;
  uint64_t since_ns_;
};

}  // namespace

RealIdle::RealIdle(const WaitPolicy::Setup& setup, RankLock* lock, const MachineProbes& probes)
    : policy_(setup), probes_(probes), oversubscribed_(setup.oversubscribed), lock_(lock) {
  pauses = policy_.pauses();
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  TERN_ASSERT(epoll_ >= 0 && wake_fd_ >= 0);
  watch(wake_fd_);
}

WaitPolicy::Setup RealIdle::setup(const Tunables& tunables, bool oversubscribed, int ranks) {
  WaitPolicy::Setup setup;
  setup.oversubscribed = oversubscribed;
  setup.ranks = ranks;
  setup.spin_ns = uint64_t(tunables.spin_us) * 1000;
  setup.yields = uint64_t(tunables.yield_rounds);
  return setup;
}

RealIdle::~RealIdle() {
  close(wake_fd_);
  close(epoll_);
}

void RealIdle::relax(ProgressEngine& engine, Wait& wait, const Condition& done) {
  if (engine.polling()) [[unlikely]] {  // a callback of the user's waits inside of a poll
    if (oversubscribed_) sched_yield();
    else cpu_pause();
    return;
  }
  if (sleepers != 0) call_ready(engine);  // their conditions may depend on changes that no poll reports
  const bool threads = lock_ && lock_->enabled();
  Step step = policy_.on_empty(wait, threads);
  if (step == Step::read_clock) step = look(engine, wait, threads);
  const bool awake = step == Step::sleep && kept_awake != 0 && wait.ended_by == EndedBy::ranks;
  if (step == Step::pause || (awake && !oversubscribed_ && !threads)) {
    give_turn(cpu_pause);
  } else if (awake) {
    give_turn(sched_yield);
  } else if (step == Step::sleep) {
    wait.looked_ns = 0;
    sleep(engine, done);
  } else {
    yield(engine, step);
  }
}

RealIdle::Step RealIdle::look(ProgressEngine& engine, Wait& wait, bool threads) {
  const Step step = policy_.on_clock(wait, engine.clock().now_ns(), threads);
  return step == Step::count_preemptions ? policy_.on_preemptions(wait, probes_.preemptions(), threads) : step;
}

void RealIdle::found(ProgressEngine& engine, Wait& wait) { look(engine, wait, lock_ && lock_->enabled()); }

void RealIdle::on_empty_looks(ProgressEngine& engine) {
  if (engine.polling()) return;
  const Step step = policy_.on_empty_look(lock_ && lock_->enabled());
  if (step != Step::pause) yield(engine, step);
}

void RealIdle::yield(ProgressEngine& engine, Step step) {
  ++engine.counters().yields;
  const bool timed = step == Step::timed_yield;
  const uint64_t before = timed ? engine.clock().now_ns() : 0;
  if (timed && engine.watch()) engine.watch()->on_clock(before);
  give_turn(sched_yield);
  if (timed && policy_.on_yielded(engine.clock().now_ns() - before)) policy_.on_tasks(probes_.runnable(), turning_);
}

// Yields to the other threads of this rank, and by sched_yield to other processes on this core.
template <typename Pass>
void RealIdle::give_turn(Pass&& pass) {
  ++turning_;
  const uint32_t depth = lock_ ? lock_->release_all() : 0;
  pass();
  if (depth) lock_->reacquire(depth);
  --turning_;
  if (depth) pauses = 0;  // there are other threads: the lock is given up from the first empty poll on
}

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

void RealIdle::watch_paths(ProgressEngine& engine) {
  for (; watched_ < engine.pollables().size(); ++watched_) {
    const int fd = engine.pollables()[watched_]->wait_fd();
    if (fd >= 0) watch(fd);
  }
}

void RealIdle::watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  [[maybe_unused]] const int added = epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event);
  TERN_ASSERT(added == 0 || errno == EEXIST);  // a launcher's descriptor may be added more than once
}

void RealIdle::sleep(ProgressEngine& engine, const Condition& done) {
  if (!asleep_on_) {
    drive(engine, done);
  } else if (!done()) {
    follow(engine, done);
  }
}

void RealIdle::follow(ProgressEngine& engine, const Condition& done) {
  note_deadline();
  Follower me(done);
  followers_.push_back(&me);
  ++sleepers;
  const Nap nap(engine);
  const uint32_t depth = lock_->release_all();
  me.called.wait(0);
  lock_->reacquire(depth);
}

void RealIdle::drive(ProgressEngine& engine, const Condition& done) {
  if (watched_ < engine.pollables().size()) watch_paths(engine);
  if (!engine.arm_all()) {
    // Another thread of this rank may have to handle what keeps it awake.
    if (oversubscribed_) give_turn(sched_yield);
    else give_turn(cpu_pause);
    return;
  }
  driver_ = std::this_thread::get_id();
  if (engine.poll_all() == 0 && !done()) {
    if (sleepers != 0) call_ready(engine);  // arming may have made the condition of a follower true
    if (WaitWatch* watch = engine.watch()) watch->on_sleep();
    const uint64_t deadline = engine.next_deadline_ns();
    int timeout_ms = -1;
    if (deadline != ~uint64_t{0}) {
      const uint64_t now = engine.clock().now_ns();
      // Rounded up: one poll a little late instead of many empty ones.
      timeout_ms = deadline <= now ? 0 : int(std::min<uint64_t>((deadline - now) / 1'000'000 + 1, 1'000'000));
    }
    ++sleepers;
    asleep_on_ = &engine;
    asleep_for_ = &done;
    asleep_until_ns_ = deadline;
    if (lock_) lock_->set_sleeper(this);
    {
      const Nap nap(engine);
      const uint32_t depth = lock_ ? lock_->release_all() : 0;
      epoll_event events[8];
      epoll_wait(epoll_, events, 8, timeout_ms);
      if (depth) lock_->reacquire(depth);
    }
    if (lock_) lock_->set_sleeper(nullptr);
    asleep_on_ = nullptr;
    --sleepers;
    if (woken_) {
      uint64_t count;
      [[maybe_unused]] ssize_t got = read(wake_fd_, &count, sizeof count);
      woken_ = false;
    }
  }
  engine.disarm_all();
}

// The called thread goes on when the caller gives the lock up.
void RealIdle::call(ProgressEngine& engine, Follower& follower) {
  IntrusiveList<Follower>::remove(&follower);
  --sleepers;
  ++engine.counters().wakes;
  follower.called.store(1, std::memory_order_release);
  follower.called.notify_one();
}

void RealIdle::call_ready(ProgressEngine& engine) {
  for (Follower *follower = followers_.front(), *next; follower; follower = next) {
    next = followers_.next(follower);
    if (follower->done()) call(engine, *follower);
  }
  if (asleep_on_ && (*asleep_for_)()) wake(engine);
}

void RealIdle::end_wait(ProgressEngine& engine) {
  policy_.on_wait_over();
  if (driver_ != std::this_thread::get_id()) return;
  driver_ = std::thread::id();
  if (sleepers == 0) return;
  call_ready(engine);
  Follower* follower = followers_.front();
  if (!follower) return;
  driver_ = follower->thread;
  call(engine, *follower);
}

void RealIdle::note_deadline() {
  if (asleep_on_->pollable_deadline_ns() < asleep_until_ns_) wake(*asleep_on_);
}

void RealIdle::wake(ProgressEngine& engine) {
  if (!asleep_on_ || woken_) return;
  ++engine.counters().wakes;
  woken_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wake_fd_, &one, sizeof one);
}

}  // namespace tern
