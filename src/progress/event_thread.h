// The event thread (LA-MPI-ED, paper 002 chapter 4; MPI 5.0, 2.9: progress): asleep in the kernel until a path has something,
// then it does what a poll of the application would, while the application computes.
//
//   application leaves the library, something is pending:  arms all paths, and the thread's descriptor once (one shot)
//   a descriptor becomes readable:                         the thread wakes, polls until nothing comes, arms again
//   application waits inside the library:                  disarms; it polls and sleeps by itself, nobody stands in its way
//
// With nothing pending nobody is armed and the thread sleeps through; while the application polls it is not woken, so that
// latency stays that of polling. Thread rule: arm, is_needed, stand_aside inside (rank_lock.h); the rest is its own.
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
  /// `pending`: whether something would move if it were polled. Starts the thread; the caller then makes it the lock's
  /// successor and the engine's helper. All paths are known by now.
  EventThread(ProgressEngine& engine, RankLock& lock, std::function<bool()> pending);
  /// Ends the thread. Not from inside it; the caller may hold the lock.
  ~EventThread();
  EventThread(const EventThread&) = delete;
  EventThread& operator=(const EventThread&) = delete;

  /// Not while a thread of the application sleeps inside: that one drives.
  bool is_needed() override { return engine_.idle().sleepers == 0 && pending_(); }
  bool is_armed() const override { return armed_.load(std::memory_order_relaxed); }
  bool arm() override;
  /// The application waits inside: it must not share its wake-ups.
  void stand_aside() override;

  struct Counters {
    uint64_t wakes = 0;    ///< of the thread
    uint64_t useless = 0;  ///< of them: the application was inside
    uint64_t handled = 0;  ///< messages and completions
  };
  /// Approximate while the thread runs.
  const Counters& counters() const { return counters_; }

 private:
  void run();
  void work();
  void set_descriptor(bool on);
  int timeout_ms() const;

  ProgressEngine& engine_;
  RankLock& lock_;
  std::function<bool()> pending_;
  int outer_ = -1;  ///< what the thread sleeps on: `inner_`, once per arming, and `stop_fd_`
  int inner_ = -1;  ///< the paths' descriptors
  int stop_fd_ = -1;
  std::atomic<bool> armed_{false}, stop_{false};
  std::atomic<uint64_t> deadline_ns_{~uint64_t{0}};  ///< of the paths, when armed
  Counters counters_;
  std::thread thread_;
};

}  // namespace tern
