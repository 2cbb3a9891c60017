// The event thread (LA-MPI-ED, paper 002 chapter 4; MPI 5.0, 2.9: progress): asleep in the kernel until a path has
// something, then it does what a poll of the application would, while the application computes.
//
// The paper's thread is woken by every message and costs 15 us and up to 22 % of the bandwidth. This one watches only
// when the application stays away:
//
//   application leaves the library     sets a timer (the first grace), unless it runs; no other cost. With nothing
//                                      pending only if it comes and goes all the time: asking for that costs more than
//                                      a timer that runs
//   timer, application was back since  sets it again: by turns twice as long as before, up to the longest grace, and
//                                      short
//   timer, application stayed inside   nothing: when it leaves it sets the timer
//   timer, application stayed away     arms all paths and sleeps on their descriptors
//   a descriptor becomes readable      polls until nothing comes, arms again
//   application waits inside           disarms; it polls and sleeps by itself, nobody stands in its way
//
// Who stayed away once probably will again: then leaving arms at once, until twice in a row that was in vain.
//
// Who watches (Successor::watch_), why no hand-over is lost:
//
//            take_over, work (inside)
//          ┌─────────────────────────> timer ──┐ its end (the thread, which then goes inside)
//       nobody <───────────────────────────────┘
//          │ ^
//          │ └─────────────────────────────────┐ something came (the thread, which then goes inside),
//          └─────────────────────────> paths ──┘ or the application is back (inside)
//            take_over, work (inside)
//
// There is one timer. Whoever changes to `timer` or `paths` sets it after that, to the grace or to the paths' deadline,
// and only the thread ends `timer`. Whoever changes to `nobody` is inside and hands over when it leaves (RankLock), or
// is on its way inside and then decides anew; a thread that finds the application there leaves that to it.
// Thread rule: Successor and WaitHelper inside (rank_lock.h), but for `watches`; the rest is the thread's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "progress/engine.h"
#include "progress/rank_lock.h"

namespace tern {

class EventThread final : public Successor, public WaitHelper {
 public:
  /// How long an absence has to be for the thread to be worth its wake-ups, and how seldom it looks for one.
  struct Patience {
    uint64_t first_grace_ns, longest_grace_ns;
    uint64_t soon_ns;  ///< an application that was back in less could as well have done without
  };
  /// Cores for all ranks; fewer, so that the thread takes the core from a rank, and a rank that is away may only wait
  /// for its turn.
  static const Patience kUncrowded, kCrowded;

  /// `needed`: whether there is something to look after while the application is away. Starts the thread; the caller
  /// then makes it the lock's successor and the engine's helper. All paths are known by now. Throws std::system_error
  /// where there is no thread or descriptor left.
  EventThread(ProgressEngine& engine, RankLock& lock, std::function<Need()> needed,
              const Patience& patience = kUncrowded);
  /// Ends the thread. Not from inside it; the caller may hold the lock.
  ~EventThread();
  EventThread(const EventThread&) = delete;
  EventThread& operator=(const EventThread&) = delete;

  /// Who asks often in vain is not asked again for a while: then the timer runs.
  Need need() override;
  Need take_over(bool again) override;
  void note_leave() override;
  /// The application waits inside: it must not share its wake-ups.
  void stand_aside() override {
    if (paths_armed_) [[unlikely]]
      forget_arming();
  }

 private:
  /// What is to be looked after; nothing while a thread of the application sleeps inside: that one drives.
  Need pending() const { return engine_.idle().sleepers == 0 ? needed_() : Need::nothing; }
  void close_descriptors();
  void run();
  void on_timer();
  void on_later();
  void on_event();
  void work();
  bool arm();
  void forget_arming();
  void sleep_on_paths();
  void say_armed(bool armed);
  void follow_deadline();
  bool stays_inside(uint64_t now_ns);
  void look_after(uint64_t grace_ns, uint32_t turns);
  void look_later();
  void on_idle_leaves();
  bool end_watch(Watch which);
  void set_timer(uint64_t after_ns);
  void let_timer_end_by(uint64_t latest_ns);
  void watch_paths(bool on);

  ProgressEngine& engine_;
  RankLock& lock_;
  const std::function<Need()> needed_;
  const Patience patience_;
  int epoll_ = -1;  ///< what the thread sleeps on: timer_, stop_fd_, and when armed the paths' descriptors, once
  int timer_ = -1;  ///< for the grace (Watch::timer), or the paths' deadline (Watch::paths)
  int stop_fd_ = -1;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> timer_ends_ns_{0};  ///< clock time; in the past: it is not set
  std::atomic<uint32_t> seen_{0};           ///< the lock's turns when the timer was set; changed only by who sets it
  uint64_t grace_ns_ = 0;                   ///< the thread's; 0: the first comes next
  bool looks_closely_ = false;              ///< the thread's: the timer runs for the first grace
  // Inside:
  bool paths_armed_ = false, watching_paths_ = false;
  uint32_t idle_leaves_ = 0;             ///< so often the application has left with nothing to look after
  uint64_t idle_leaves_ns_ = 0;          ///< when that was a multiple of kIdleLeaves last
  uint64_t deadline_ns_ = 0;             ///< what the timer was set to, asleep on the paths
  std::atomic<bool> stays_away_{false};  ///< it did the last time; else the timer finds out
  int in_vain_ = 0;                      ///< so often in a row the application was back soon after it had left, armed
  uint64_t left_armed_ns_ = 0;           ///< when the application left last, armed; 0: the thread has been of use since
  std::thread thread_;
};

}  // namespace tern
