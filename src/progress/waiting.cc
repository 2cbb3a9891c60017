// How an engine waits: carries out the policy (wait_policy.h) with the kernel's means (wait_port.h).
//
// Threads of a rank (MPI_THREAD_MULTIPLE) that are awake poll in turn. Of those that sleep, one (the driver) sleeps on
// the descriptors; the others are followers and are woken when their condition is true. (Waking all of them for each
// message cost more than the message.)
//
// Why no wake-up is lost:
//  - Messages: a path's arm() declares this rank asleep and looks again afterwards; what comes later makes wait_fd
//    readable (each path shows how; shared memory: fabric/shm/node.h). After arming, all paths are polled once more and
//    the condition is asked once more; any success means no sleep. The descriptors are level-triggered.
//  - Followers: a thread becomes one only while the driver sleeps. Requests are completed under the rank's lock only. A
//    thread that completes one in a poll asks the followers' conditions at the end of the poll; otherwise (a message to
//    self) it wakes the driver. The driver asks them between its polls, before it sleeps again, and when its wait is
//    over; then it calls one of the remaining followers to be the driver, unless another thread has slept on the
//    descriptors after it.
//  - Deadlines: a thread that begins something while the driver sleeps wakes it, if that has an earlier deadline, when
//    it leaves or follows.
//  - Paths: who adds one wakes the driver, which arms it, too.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "progress/engine.h"

namespace tern {
namespace {

/// Counts a sleep and its time, and tells `policy` (null: nobody). Begins and ends under the rank's lock.
class Nap {
 public:
  explicit Nap(ProgressEngine& engine, WaitPolicy* policy = nullptr)
      : engine_(engine), policy_(policy), since_ns_(engine.clock().now_ns()) {
    ++engine.counters().sleeps;
  }
  ~Nap() {
    const uint64_t lasted = engine_.clock().now_ns() - since_ns_;
    engine_.counters().asleep += lasted;
    if (policy_) policy_->on_slept(lasted);
    if (Recorder* tracer = engine_.tracer()) tracer->add(record::EventKind::sleep, since_ns_, lasted);
  }
  Nap(const Nap&) = delete;
  Nap& operator=(const Nap&) = delete;

 private:
  ProgressEngine& engine_;
  WaitPolicy* policy_;
  uint64_t since_ns_;
};

}  // namespace

void ProgressEngine::relax(Wait& wait, const Condition& done) {
  if (observer_) observer_->on_empty_polls(wait.empty);
  port_.on_empty_poll();
  if (driving_.in_round()) [[unlikely]] {  // a callback of the user's waits inside of a round
    if (policy_.oversubscribed()) port_.yield();
    else cpu_pause();
    return;
  }
  if (driving_.sleep.sleeping() != 0) call_ready();  // their conditions may depend on changes that no poll reports
  if (run_between_polls()) return;
  if (port_.virtual_time()) return sleep(done);
  const bool threads = driving_.enabled();
  Step step = policy_.on_empty(wait, threads);
  if (step == Step::read_clock) step = look_at_clock(wait);
  const int called = driving_.sleep.called, others = driving_.sleep.turning + called;
  if (step == Step::pause && others != 0 && policy_.crowded(others))
    step = policy_.on_crowded(wait, clock_.now_ns(), called != 0);
  const bool awake = step == Step::sleep && kept_awake() && wait.ended_by == EndedBy::ranks;
  if (step == Step::pause || (awake && !policy_.oversubscribed() && !threads)) {
    give_turn(cpu_pause);
  } else if (awake) {
    give_core();
  } else if (step == Step::sleep) {
    wait.looked_ns = 0;
    sleep(done);
  } else {
    yield(step);
  }
}

ProgressEngine::Step ProgressEngine::look_at_clock(Wait& wait) {
  const bool threads = driving_.enabled();
  const Step step = policy_.on_clock(wait, clock_.now_ns(), threads);
  return step == Step::count_preemptions ? policy_.on_preemptions(wait, port_.preemptions(), threads) : step;
}

bool ProgressEngine::run_between_polls() { return between_polls_ && !driving_.in_round() && between_polls_->run(); }

// A call that only looks (MPI_Test) was empty, and so were those before it.
void ProgressEngine::on_empty_looks() {
  if (driving_.in_round() || port_.virtual_time()) return;
  const Step step = policy_.on_empty_look(driving_.enabled());
  if (step != Step::pause) yield(step);
}

void ProgressEngine::yield(Step step) {
  const bool timed = step == Step::timed_yield;
  const uint64_t before = timed ? clock_.now_ns() : 0;
  if (timed && observer_) observer_->on_clock(before);
  give_core();
  if (timed && policy_.on_yielded(clock_.now_ns() - before))
    policy_.on_tasks(port_.runnable_tasks(), driving_.sleep.turning, ranks_asleep());
}

// To other processes and threads, whose turns may take long: then paths that are polled seldom are looked at soon.
void ProgressEngine::give_core() {
  give_turn([this] { port_.yield(); });
  if (policy_.wants_whole_round(++counters_.yields)) make_next_whole();
}

// Yields to the other threads of this rank, and by sched_yield to other processes on this core.
template <typename Pass>
void ProgressEngine::give_turn(Pass&& pass) {
  ++driving_.sleep.turning;
  const uint32_t depth = driving_.give_way();
  pass();
  driving_.come_back(depth);
  TERN_DEBUG_ASSERT(driving_.sleep.turning > 0);
  --driving_.sleep.turning;
  if (depth) pauses_ = 0;  // there are other threads: the lock is given up from the first empty poll on
}

void ProgressEngine::sleep(const Condition& done) {
  if (!driving_.sleep.engine) {
    drive(done);
  } else if (!done()) {
    follow(done);
  }
}

void ProgressEngine::follow(const Condition& done) {
  note_deadline();
  if (std::exchange(driving_.unarmed, false)) wake();
  Driving::Follower me(done);
  driving_.sleep.followers.push_back(&me);
  TERN_DEBUG_ASSERT(driving_.sleep.engine && !driving_.in_round());
  driving_.sleep.count_sleeper(1);
  const Nap nap(*this);
  const uint32_t depth = driving_.give_way();
  TERN_ASSERT(depth != 0);
  me.called.wait(0);
  driving_.come_back(depth);
  TERN_DEBUG_ASSERT(driving_.sleep.called > 0);
  --driving_.sleep.called;
}

void ProgressEngine::drive(const Condition& done) {
  for (; watched_ < pollables().size(); ++watched_) {
    if (const int fd = pollables()[watched_]->wait_fd(); fd >= 0) port_.watch(fd);
  }
  TERN_DEBUG_ASSERT(!driving_.sleep.engine && watched_ == pollables().size());
  driving_.unarmed = false;
  if (!arm_all(Driving::Armed::sleeper)) {
    // Another thread of this rank may have to handle what keeps it awake.
    if (policy_.oversubscribed()) give_core();
    else give_turn(cpu_pause);
    return;
  }
  driving_.sleep.driver = std::this_thread::get_id();
  if ((port_.virtual_time() || poll_all() == 0) && !done()) sleep_on_paths(done);
  disarm_all();
}

void ProgressEngine::sleep_on_paths(const Condition& done) {
  Driving::Sleep& sleep = driving_.sleep;
  if (sleep.sleeping() != 0) call_ready();  // arming may have made the condition of a follower true
  if (port_.virtual_time() && !driving_.enabled()) return port_.sleep(next_deadline_ns(), 0);
  sleep_until_called(done, [this](uint64_t deadline_ns, uint64_t now_ns) { port_.sleep(deadline_ns, now_ns); });
}

// The helper has the paths. False: somebody relies on this thread's polls.
bool ProgressEngine::await_helper(Wait& wait, const Condition& done) {
  if (driving_.in_round() || kept_awake()) return false;
  if (run_between_polls()) return true;
  if (observer_) observer_->on_empty_polls(++wait.empty);
  if (driving_.sleep.engine) {
    follow(done);
    return true;
  }
  driving_.successor()->take_over(false);
  if (done()) return true;
  driving_.sleep.driver = std::this_thread::get_id();
  sleep_until_called(done,
                     [this](uint64_t deadline_ns, uint64_t now_ns) { port_.sleep_beside_helper(deadline_ns, now_ns); });
  return true;
}

// Until `wake`, or what `sleep` sleeps on.
template <typename Sleep>
void ProgressEngine::sleep_until_called(const Condition& done, Sleep&& sleeps) {
  Driving::Sleep& sleep = driving_.sleep;
  if (observer_) observer_->on_sleep();
  TERN_ASSERT(!sleep.engine);
  sleep.count_sleeper(1);
  sleep.engine = this;
  sleep.until = &done;
  sleep.deadline_ns = next_deadline_ns();
  const uint64_t now_ns = sleep.deadline_ns != ~uint64_t{0} ? clock_.now_ns() : 0;
  {
    const Nap nap(*this, &policy_);
    const uint32_t depth = driving_.give_way();
    sleeps(sleep.deadline_ns, now_ns);
    driving_.come_back(depth);
  }
  TERN_DEBUG_ASSERT(sleep.engine == this);
  sleep.engine = nullptr;
  sleep.count_sleeper(-1);
  if (std::exchange(sleep.woken, false)) port_.forget_wake();
}

// The called thread goes on when the caller gives the lock up.
void ProgressEngine::call(Driving::Follower& follower) {
  IntrusiveList<Driving::Follower>::remove(&follower);
  TERN_DEBUG_ASSERT(follower.called.load(std::memory_order_relaxed) == 0);
  driving_.sleep.count_sleeper(-1);
  ++counters_.wakes;
  ++driving_.sleep.called;
  follower.called.store(1, std::memory_order_release);
  follower.called.notify_one();
}

// Those threads whose conditions are true. Not from inside of a poll.
void ProgressEngine::call_ready() {
  Driving::Sleep& sleep = driving_.sleep;
  for (Driving::Follower *follower = sleep.followers.front(), *next; follower; follower = next) {
    next = sleep.followers.next(follower);
    if (follower->done()) call(*follower);
  }
  if (sleep.engine && (*sleep.until)()) wake();
}

// Makes somebody ask soon whether the condition of a thread that waits is true. From anywhere under the rank's lock.
void ProgressEngine::wake() {
  Driving::Sleep& sleep = driving_.sleep;
  if (!sleep.engine || sleep.woken) return;
  ++counters_.wakes;
  sleep.woken = true;
  TERN_DEBUG_ASSERT(sleep.engine);
  port_.wake();
}

// The thread will not drive any more.
void ProgressEngine::end_wait(Wait& wait) {
  if (wait.is_long()) look_at_clock(wait);
  policy_.on_wait_over();
  Driving::Sleep& sleep = driving_.sleep;
  if (sleep.driver == std::this_thread::get_id()) {
    sleep.driver = std::thread::id();
    if (sleep.sleeping() != 0) call_ready();
    if (Driving::Follower* follower = sleep.sleeping() != 0 ? sleep.followers.front() : nullptr) {
      sleep.driver = follower->thread;
      call(*follower);
    }
  }
  if (observer_) observer_->on_wait_over();
}

void ProgressEngine::note_deadline() {
  if (pollable_deadline_ns() < driving_.sleep.deadline_ns) wake();
}

uint64_t ProgressEngine::next_deadline_ns() const {
  return std::min(observer_ ? observer_->next_deadline_ns() : ~uint64_t{0}, pollable_deadline_ns());
}

}  // namespace tern
