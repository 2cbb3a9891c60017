// Waiting on a real machine (DESIGN.md 7): spin, or yield when there are more ranks than cores, then sleep in
// epoll on the descriptors of all paths. The figures behind the defaults stand with the tunables spin_rounds
// and yield_rounds. Yielding is for ranks that all wait. Where others compute on the same cores, each yield costs a slice of
// theirs (milliseconds), while a sleeper that is woken is soon scheduled: a rank that sees its yields take long sleeps at
// once for a while (300 MPI_Comm_split of 4 ranks beside 15 compilers on 2 cores: 1.4 s by yielding, 0.1 s by sleeping).
// Unless those who compute are the job's own ranks: they are what everybody waits for, and sleeping in turn only lets the cores go
// idle between wake-ups (NPB's BT, class W, 16 ranks on 2 cores: 1.37 s by sleeping, 0.84 s by yielding).
//
// Why no wake-up is lost:
//  - Messages: a path's arm() declares this rank asleep and looks again afterwards; what comes later makes
//    wait_fd readable (each path shows how; shared memory: fabric/shm/node.h). After arming, everything is polled
//    once more and what is waited for is asked once more; any success means no sleep. The descriptors are level-triggered.
//  - Other threads of this rank: one sleeper, the driver, sleeps on the descriptors; the others, the followers, wait for
//    `generation_` to change. Requests are completed under the rank's lock only. A sleeper holds the lock
//    from the last look at its request until `sleepers` counts it and (a follower) until it has read the
//    generation; whoever comes later sees the count and moves the generation on, and makes the wake
//    descriptor readable for the driver.
//  - A driver that wakes may leave for good, so it wakes one follower, which finds no driver when it sleeps again.
//
// Thread rule: relax and wake under the rank's lock; relax gives it up inside.
#pragma once

#include <atomic>

#include "base/tunables.h"
#include "progress/idle.h"

namespace tern {

class RealIdle final : public Idle {
 public:
  /// `lock` may be null (single-threaded). `oversubscribed`: more ranks than cores on this node. `ranks`: so many share this
  /// node; `runnable` tells how many tasks of the whole machine want a core.
  RealIdle(const Tunables& tunables, bool oversubscribed, Releasable* lock, int ranks = 0, int (*runnable)() = runnable_tasks);
  ~RealIdle() override;
  RealIdle(const RealIdle&) = delete;
  RealIdle& operator=(const RealIdle&) = delete;

  void relax(ProgressEngine& engine, uint32_t fruitless, const Condition& done) override;
  void wake() override;
  void watch(int descriptor) override;

  /// Tasks of this machine that run or could, this one included, from /proc/loadavg; INT_MAX where that cannot be read.
  static int runnable_tasks();

 private:
  void sleep(ProgressEngine& engine, const Condition& done);
  void give_turn();
  void core_was_taken();
  bool others_compute() const;
  void drive(ProgressEngine& engine, const Condition& done);
  void follow(ProgressEngine& engine);
  /// After this thread has stopped driving, or could not begin to: it may leave for good.
  void call_one_follower();
  void watch_paths(ProgressEngine& engine);

  int ranks_;
  int (*runnable_)();
  uint32_t rounds_;  ///< of spinning or yielding before sleep
  bool yield_;
  uint32_t waits_without_yield_ = 0;  ///< so many sleep at once: others compute on these cores
  uint32_t penalty_ = 16;             ///< what waits_without_yield_ was set to last
  uint32_t quick_yields_ = 0;         ///< since then
  uint32_t sightings_ = 0;            ///< long yields with strangers about, since the last without
  Releasable* lock_;
  int epoll_ = -1, wake_fd_ = -1;
  size_t watched_ = 0;                   ///< paths whose descriptor is in epoll_
  bool driving_ = false;                 ///< a thread is asleep on the descriptors
  bool woken_ = false;                   ///< wake_fd_ is readable
  std::atomic<uint32_t> generation_{0};  ///< changed under the rank's lock
};

}  // namespace tern
