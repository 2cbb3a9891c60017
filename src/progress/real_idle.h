// Waiting on a real machine: carries out the policy (progress/wait_policy.h). Sleeping means waiting in epoll on the
// descriptors of all paths.
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
//
// Thread rule: everything under the rank's lock; relax gives it up inside.
#pragma once

#include <atomic>
#include <thread>

#include "base/intrusive_list.h"
#include "base/tunables.h"
#include "progress/idle.h"
#include "progress/rank_lock.h"
#include "progress/wait_policy.h"

namespace tern {

/// Runnable tasks of this machine, this one included, from /proc/loadavg; INT_MAX if that cannot be read.
int runnable_tasks();
/// How often the kernel has preempted this thread to run another.
int64_t preemptions_of_this_thread();

/// What the policy needs to know of the machine.
struct MachineProbes {
  int (*runnable)() = runnable_tasks;
  int64_t (*preemptions)() = preemptions_of_this_thread;
};

class RealIdle final : public Idle {
 public:
  /// `lock` may be null (single-threaded).
  RealIdle(const WaitPolicy::Setup& setup, RankLock* lock, const MachineProbes& probes = {});
  /// `ranks`: number of ranks on this node.
  RealIdle(const Tunables& tunables, bool oversubscribed, RankLock* lock, int ranks = 1)
      : RealIdle(setup(tunables, oversubscribed, ranks), lock) {}
  ~RealIdle() override;
  RealIdle(const RealIdle&) = delete;
  RealIdle& operator=(const RealIdle&) = delete;

  void relax(ProgressEngine& engine, Wait& wait, const Condition& done) override;
  void found(ProgressEngine& engine, Wait& wait) override;
  void end_wait(ProgressEngine& engine) override;
  void call_ready(ProgressEngine& engine) override;
  void wake(ProgressEngine& engine) override;
  void on_empty_looks(ProgressEngine& engine) override;
  void note_deadline() override;
  void watch(int descriptor) override;

  static WaitPolicy::Setup setup(const Tunables& tunables, bool oversubscribed, int ranks);

 private:
  using Step = WaitPolicy::Step;
  /// A thread in relax that waits to be called.
  struct Follower : ListHook<Follower> {
    explicit Follower(const Condition& condition) : done(condition) {}
    const Condition& done;
    const std::thread::id thread = std::this_thread::get_id();
    std::atomic<uint32_t> called{0};  ///< 1: called
  };

  template <typename Pass>
  void give_turn(Pass&& pass);
  void yield(ProgressEngine& engine, Step step);
  Step look(ProgressEngine& engine, Wait& wait, bool threads);
  void sleep(ProgressEngine& engine, const Condition& done);
  void drive(ProgressEngine& engine, const Condition& done);
  void follow(ProgressEngine& engine, const Condition& done);
  void call(ProgressEngine& engine, Follower& follower);
  void watch_paths(ProgressEngine& engine);

  WaitPolicy policy_;
  const MachineProbes probes_;
  const bool oversubscribed_;
  RankLock* lock_;
  int epoll_ = -1, wake_fd_ = -1;
  size_t watched_ = 0;      ///< paths whose descriptor is in epoll_
  std::thread::id driver_;  ///< the waiting thread that slept on the descriptors last, or is called to; or none
  ProgressEngine* asleep_on_ = nullptr;  ///< the engine on whose descriptors a thread is asleep; null: none
  const Condition* asleep_for_ = nullptr;
  uint64_t asleep_until_ns_ = 0;  ///< its deadline, or ~0
  bool woken_ = false;            ///< wake_fd_ is readable
  IntrusiveList<Follower> followers_;
  int turning_ = 0;  ///< threads in sched_yield
};

}  // namespace tern
