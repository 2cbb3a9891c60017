// Waiting on a real machine (DESIGN.md 7): spin, or yield when there are more ranks than cores, then sleep in
// epoll on the descriptors of all paths. The figures behind the defaults stand with the tunables spin_rounds
// and yield_rounds. Yielding is for ranks that all wait. Where others compute on the same cores, each yield costs a
// slice of theirs (milliseconds), while a sleeper that is woken is soon scheduled: a rank that sees its yields take
// long sleeps at once for a while (300 MPI_Comm_split of 4 ranks beside 15 compilers on 2 cores: 1.4 s by yielding, 0.1
// s by sleeping). Unless those who compute are the job's own ranks: they are what everybody waits for, and sleeping in
// turn only lets the cores go idle between wake-ups (NPB's BT, class W, 16 ranks on 2 cores: 1.37 s by sleeping, 0.84 s
// by yielding).
//
// Before it yields a rank lingers, where that has mostly been worth it (progress/lingering.h).
//
// Threads of a rank (MPI_THREAD_MULTIPLE) all poll while they are awake, by turns. Of those that sleep one, the driver,
// sleeps on the descriptors, the others are followers: they are called when what they wait for has happened. (To wake
// all of them for each message cost more than the message.)
//
// Why no wake-up is lost:
//  - Messages: a path's arm() declares this rank asleep and looks again afterwards; what comes later makes
//    wait_fd readable (each path shows how; shared memory: fabric/shm/node.h). After arming, everything is polled
//    once more and what is waited for is asked once more; any success means no sleep. The descriptors are
//    level-triggered.
//  - Followers: a thread becomes one only while the driver sleeps. Requests are completed under the rank's lock only.
//  Who
//    completes one in a poll asks the followers' conditions at its end; otherwise (a message to self) the driver is
//    woken. The driver asks them between its polls, before it sleeps again, and when its wait is over; then it calls
//    one of those who are left to be the driver, unless another thread has slept on the descriptors after it.
//  - Deadlines: a thread that begins something while the driver sleeps wakes it if that has an earlier deadline, when
//  it leaves
//    or follows.
//
// Thread rule: everything under the rank's lock; relax gives it up inside.
#pragma once

#include <atomic>
#include <thread>

#include "base/intrusive_list.h"
#include "base/tunables.h"
#include "progress/idle.h"
#include "progress/lingering.h"

namespace tern {

class RealIdle final : public Idle, private Sleeper {
 public:
  /// `lock` may be null (single-threaded). `oversubscribed`: more ranks than cores on this node. `ranks`: so many share
  /// this node; `runnable` tells how many tasks of the whole machine want a core.
  RealIdle(const Tunables& tunables, bool oversubscribed, Releasable* lock, int ranks = 0,
           int (*runnable)() = runnable_tasks);
  ~RealIdle() override;
  RealIdle(const RealIdle&) = delete;
  RealIdle& operator=(const RealIdle&) = delete;

  void relax(ProgressEngine& engine, uint32_t fruitless, const Condition& done) override;
  void end_wait(ProgressEngine& engine) override;
  void call_ready(ProgressEngine& engine) override;
  void wake(ProgressEngine& engine) override;
  void looked_in_vain(ProgressEngine& engine) override;
  void watch(int descriptor) override;

  /// Tasks of this machine that run or could, this one included, from /proc/loadavg; INT_MAX where that cannot be read.
  static int runnable_tasks();

 private:
  /// A thread that waits in relax to be called.
  struct Follower : ListHook<Follower> {
    explicit Follower(const Condition& condition) : done(condition) {}
    const Condition& done;
    const std::thread::id thread = std::this_thread::get_id();
    std::atomic<uint32_t> called{0};  ///< 1: it goes on
  };

  void note_deadline() override;
  template <typename Pass>
  void give_turn(Pass&& pass);
  void give_turn_and_see(ProgressEngine& engine);
  void core_was_taken();
  bool others_compute() const;
  void sleep(ProgressEngine& engine, const Condition& done);
  void drive(ProgressEngine& engine, const Condition& done);
  void follow(ProgressEngine& engine, const Condition& done);
  void call(ProgressEngine& engine, Follower& follower);
  void watch_paths(ProgressEngine& engine);

  int ranks_;
  int (*runnable_)();
  uint32_t rounds_;  ///< of spinning or yielding before sleep
  bool yield_;
  uint32_t waits_without_yield_ = 0;  ///< so many sleep at once: others compute on these cores
  uint32_t penalty_ = 16;             ///< what waits_without_yield_ was set to last
  uint32_t quick_yields_ = 0;         ///< since then
  uint32_t sightings_ = 0;            ///< long yields with strangers about, since the last without
  Lingering lingering_;               ///< where ranks yield
  Releasable* lock_;
  int epoll_ = -1, wake_fd_ = -1;
  size_t watched_ = 0;      ///< paths whose descriptor is in epoll_
  std::thread::id driver_;  ///< who slept on the descriptors last, or is called to, and still waits; or none
  ProgressEngine* asleep_on_ = nullptr;  ///< a thread is asleep on its descriptors; null: none is
  const Condition* asleep_for_ = nullptr;
  uint64_t asleep_until_ns_ = 0;  ///< its deadline, or ~0
  bool woken_ = false;            ///< wake_fd_ is readable
  IntrusiveList<Follower> followers_;
  int turning_ = 0;  ///< threads that have given their turn away
};

}  // namespace tern
