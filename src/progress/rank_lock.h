// The lock of one rank: who may be inside the library. Three situations:
//
//   alone    one application thread: its entry points take nothing
//   helped   one application thread and the event thread (event_thread.h): the application says "inside" and "outside" with
//            plain stores; the event thread, which comes rarely, pays for both with a membarrier and works only outside
//   shared   several application threads (MPI_THREAD_MULTIPLE): a recursive mutex, given up entirely while waiting
//
// Helped, why nothing is overlooked: the application stores inside = 0, then reads whether somebody is armed; the event
// thread says that it is not armed any more, membarrier, then reads inside. So either the event thread finds the application
// gone and works, or the application finds nobody armed and arms again.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "progress/idle.h"

namespace tern {

/// Who goes on with what is pending when the application leaves the library.
class Successor {
 public:
  /// Something is pending that others will move. Asked inside.
  virtual bool is_needed() = 0;
  /// Asked from anywhere.
  virtual bool is_armed() const = 0;
  /// Called inside. False: nothing is pending any more.
  virtual bool arm() = 0;

 protected:
  ~Successor() = default;
};

class RankLock final : public Releasable {
 public:
  /// Before any second application thread may enter; never turned off again.
  void enable() { shared_ = true; }
  bool enabled() const { return shared_; }
  /// Null: nobody. Not owned. Called inside, or while the mutex is held and the application is nowhere else.
  void set_successor(Successor* successor) { successor_ = successor; }

  // --- The application's ordinary entry points, unless alone. Recursive.
  void enter() {
    if (shared_) {
      acquire();
    } else if (inside_depth_++ == 0) {
      go_inside();
    }
  }
  void leave() {
    if (shared_) {
      release();
    } else if (--inside_depth_ == 0) {
      go_outside();
    }
  }

  // --- The mutex: for everybody when shared; always for functions that may be called at any time from any thread.
  void acquire() {
    if (owner_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      ++depth_;
      return;
    }
    mutex_.lock();
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    depth_ = 1;
  }
  void release() {
    if (--depth_ != 0) return;
    if (shared_ && successor_ && successor_->is_needed() && !successor_->is_armed()) successor_->arm();
    unlock();
  }
  uint32_t release_all() override {
    if (!shared_ || owner_.load(std::memory_order_relaxed) != std::this_thread::get_id()) return 0;
    uint32_t depth = depth_;
    unlock();
    return depth;
  }
  void reacquire(uint32_t depth) override {
    if (depth == 0) return;
    mutex_.lock();
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    depth_ = depth;
  }

  // --- The event thread. `pay`: makes every running thread of the process pass a full memory barrier.
  /// False: the application is inside and will arm again when it leaves.
  template <typename Pay>
  bool enter_as_helper(Pay&& pay) {
    if (shared_) {
      acquire();
      return true;
    }
    helper_inside_.store(true, std::memory_order_relaxed);
    pay();
    if (!inside_.load(std::memory_order_acquire)) return true;
    leave_as_helper();
    return false;
  }
  void leave_as_helper() {
    if (owner_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      --depth_;
      unlock();
      return;
    }
    helper_inside_.store(false, std::memory_order_release);
    helper_inside_.notify_one();
  }
  /// The application waits for the event thread to leave.
  bool application_waits() const { return inside_.load(std::memory_order_relaxed); }

 private:
  void unlock() {
    owner_.store(std::thread::id(), std::memory_order_relaxed);
    mutex_.unlock();
  }
  void go_inside() {
    inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the other half is the event thread's membarrier
    while (helper_inside_.load(std::memory_order_acquire)) [[unlikely]] helper_inside_.wait(true);
  }
  void go_outside() {
    bool needed = successor_ && successor_->is_needed();
    say_outside();
    while (needed && !successor_->is_armed()) [[unlikely]] {
      go_inside();
      needed = successor_->arm();
      say_outside();
    }
  }
  void say_outside() {
    inside_.store(false, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  bool shared_ = false;
  Successor* successor_ = nullptr;
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_{};
  uint32_t depth_ = 0;
  uint32_t inside_depth_ = 0;
  std::atomic<bool> inside_{false}, helper_inside_{false};
};

}  // namespace tern
