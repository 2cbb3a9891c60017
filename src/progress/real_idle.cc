#include "progress/real_idle.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>

#include "base/assert.h"
#include "base/hints.h"
#include "progress/engine.h"

namespace tern {
namespace {

// A yield that takes so long gave the core to somebody who computes; among ranks that all wait it takes some
// microseconds.
constexpr uint64_t kCoreTaken_ns = 1'000'000;
// Waits that sleep at once before yielding is tried again, at first and at most; doubled each time the trial fails
// soon. Among 8 ranks of 2 cores that all wait, a hand-over by sleeping costs 25 us and one by yielding 1; a yield in
// the wrong company costs milliseconds.
constexpr uint32_t kFirstPenalty = 32, kMostPenalty = 1024;
constexpr uint32_t kSoon_yields = 1000;
// So many long yields one after the other must have had strangers about: the kernel's threads and the launcher want a
// core now and then, too. (NPB's SP, class A, 4 ranks on 2 cores: 1 to 4 % slower with one.)
constexpr uint32_t kSightings = 4;
// Of many quick yields every so many is timed, and all while there are sightings: to look at the clock twice after each
// change of the running process is 0.08 of 1.3 us.
constexpr uint32_t kTimedYields = 8;

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

RealIdle::RealIdle(const Tunables& tunables, bool oversubscribed, Releasable* lock, int ranks, int (*runnable)())
    : ranks_(ranks),
      runnable_(runnable),
      rounds_(uint32_t(oversubscribed ? tunables.yield_rounds : tunables.spin_rounds)),
      yield_(oversubscribed),
      lingering_(rounds_),
      lock_(lock) {
  if (!yield_) pauses = rounds_;
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  TERN_ASSERT(epoll_ >= 0 && wake_fd_ >= 0);
  watch(wake_fd_);
}

RealIdle::~RealIdle() {
  close(wake_fd_);
  close(epoll_);
}

void RealIdle::relax(ProgressEngine& engine, uint32_t fruitless, const Condition& done) {
  if (sleepers != 0) call_ready(engine);  // what no poll handles may be what they wait for
  if (const uint32_t lingers = lingering_.rounds(); lingers != 0) {
    if (fruitless <= lingers) {
      give_turn(cpu_pause);
      return;
    }
    if (fruitless == lingers + 1) lingering_.in_vain();
  }
  if (fruitless > rounds_) {
    sleep(engine, done);
    return;
  }
  if (waits_without_yield_ != 0) {
    --waits_without_yield_;
    sleep(engine, done);
    return;
  }
  if (yield_) {
    give_turn_and_see(engine);
  } else {
    give_turn(cpu_pause);
  }
}

void RealIdle::looked_in_vain(ProgressEngine& engine) {
  if (!yield_ && !(lock_ && lock_->shared())) return;
  if (waits_without_yield_ == 0) {
    give_turn_and_see(engine);
  } else {
    --waits_without_yield_;
  }
}

void RealIdle::give_turn_and_see(ProgressEngine& engine) {
  ++engine.counters().yields;
  const bool timed = ++quick_yields_ < kSoon_yields || sightings_ != 0 || quick_yields_ % kTimedYields == 0;
  const uint64_t before = timed ? engine.clock().now_ns() : 0;
  give_turn(sched_yield);
  if (timed && engine.clock().now_ns() - before > kCoreTaken_ns) core_was_taken();
}

// To the other threads of this rank, and by sched_yield to whoever shares the core.
template <typename Pass>
void RealIdle::give_turn(Pass&& pass) {
  ++turning_;
  const uint32_t depth = lock_ ? lock_->release_all() : 0;
  pass();
  if (depth) lock_->reacquire(depth);
  --turning_;
  if (depth) pauses = 0;  // there are other threads: the lock is given up from the first fruitless poll on
}

int RealIdle::runnable_tasks() {
  const int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return INT_MAX;
  char text[128];
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  text[std::max<ssize_t>(length, 0)] = '\0';
  int runnable;
  return std::sscanf(text, "%*s %*s %*s %d/", &runnable) == 1 ? runnable : INT_MAX;
}

// Ranks that yield are runnable all the time, so the machine having more runnable tasks than the job has ranks here
// means strangers. Of threads that yield the others are thought to have as many as this rank. Asked after yields of
// milliseconds only.
bool RealIdle::others_compute() const { return runnable_() > ranks_ * (1 + turning_); }

void RealIdle::core_was_taken() {
  if (!others_compute()) {
    sightings_ = 0;
    return;
  }
  if (++sightings_ < kSightings) return;
  penalty_ = quick_yields_ > kSoon_yields ? kFirstPenalty : std::min(2 * penalty_, kMostPenalty);
  quick_yields_ = 0;
  waits_without_yield_ = penalty_;
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
  TERN_ASSERT(added == 0);
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
    // What keeps this rank awake may be up to another of its threads.
    if (yield_) give_turn(sched_yield);
    else give_turn(cpu_pause);
    return;
  }
  driver_ = std::this_thread::get_id();
  if (engine.poll_all() == 0 && !done()) {
    if (sleepers != 0) call_ready(engine);  // what arming has learnt may be what a follower waits for
    const uint64_t deadline = engine.next_deadline_ns();
    int timeout_ms = -1;
    if (deadline != ~uint64_t{0}) {
      const uint64_t now = engine.clock().now_ns();
      // Rounded up: one poll a little late instead of many in vain.
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

// It goes on when the caller gives the lock up.
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
  if (yield_) lingering_.wait_ended();
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
