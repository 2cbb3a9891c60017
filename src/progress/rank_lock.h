// The lock of one engine: which thread may be inside the library. Who takes over when it leaves: driving.h. Three
// situations:
//
//   alone    one application thread: its entry points take nothing
//   helped   one application thread and the event thread (event_handler.h): the application says "inside" and
//            "outside" with plain stores; the event thread, which comes rarely, pays for both with a membarrier and
//            works only while the application is outside
//   shared   several application threads (MPI_THREAD_MULTIPLE): a recursive mutex (biased_mutex.h), given up entirely
//            while waiting
//
// Helped, why no hand-over is lost: the application stores "outside", then reads whether the event thread watches. The
// event thread stores that it no longer watches, calls membarrier, then reads whether the application is inside. So
// either the event thread finds the application outside and works, or the application finds that nobody watches and
// hands over again.
//
// A membarrier interrupts the core on which the application computes (12 us). If the thread is expected soon
// (`expect_helper`) the application pays instead: on entry, after storing "inside", it changes (read-modify-write) the
// word that the thread also changes on entry. One of the two changes is later and sees what was stored before the
// other. So a thread that finds the application outside needs no membarrier; one that finds it inside calls it, since
// what it sees may be old.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/assert.h"
#include "base/looks.h"
#include "base/membarrier.h"
#include "progress/biased_mutex.h"

namespace tern {

class RankLock {
 public:
  /// Before any second application thread may enter; never turned off again. Called by the one thread there is, which
  /// may be inside already: then it holds the mutex afterwards.
  void enable() {
    if (shared_) return;
    shared_ = true;
    has_barrier_ = register_barrier_everywhere();
    mutex_.allow_terms(has_barrier_ && !helped_);
    if (owner_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      count_turn();
    } else if (inside_depth_ != 0) {
      lock_mutex();
      depth_ = inside_depth_;
      inside_depth_ = 0;
    }
  }
  bool enabled() const { return shared_; }
  /// Whether this thread holds the mutex.
  bool is_mine() const { return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }
  // --- The application's ordinary entry points, unless alone. Recursive.
  void enter() {
    if (shared_) {
      acquire();
    } else {
      enter_helped();
    }
  }
  /// Of a caller that knows that the lock is not shared (else it calls `acquire`).
  void enter_helped() {
    TERN_DEBUG_ASSERT(!shared_);
    if (inside_depth_++ == 0) go_inside();
  }

  // --- The mutex: for all threads when shared; always for functions that any thread may call at any time.
  void acquire() {
    const std::thread::id me = std::this_thread::get_id();
    if (owner_.load(std::memory_order_relaxed) == me) {
      ++depth_;
      return;
    }
    lock_mutex(me);
    if (shared_) count_turn();
    depth_ = 1;
  }

  // --- The event thread. `pay`: makes every running thread of the process pass a full memory barrier.
  /// False: the application is inside and will hand over again when it leaves.
  template <typename Pay>
  bool enter_as_helper(Pay&& pay) {
    if (shared_) {
      lock_mutex();
      depth_ = 1;
      helper_.fetch_or(kInside, std::memory_order_relaxed);  // for helper_inside alone
      return true;
    }
    const bool expected = helper_.fetch_or(kInside, std::memory_order_acq_rel) & kExpected;
    if (expected && turns_.load(std::memory_order_acquire) % 2 == 0) return true;
    pay();
    if (turns_.load(std::memory_order_acquire) % 2 == 0) return true;
    leave_as_helper();
    return false;
  }
  /// For a permanently polling helper, which is expected (`expect_helper`): it pays nothing and waits for nobody.
  /// False: the application is inside, or wants to be; try again.
  bool try_enter_as_helper() {
    if (shared_) {
      const std::thread::id me = std::this_thread::get_id();
      if (mutex_.wanted() || !mutex_.try_lock(me)) return false;
      owner_.store(me, std::memory_order_relaxed);
      depth_ = 1;
      helper_.fetch_or(kInside, std::memory_order_relaxed);
      return true;
    }
    if (turns_.load(std::memory_order_relaxed) % 2 != 0) return false;
    helper_.fetch_or(kInside, std::memory_order_acq_rel);
    if (turns_.load(std::memory_order_acquire) % 2 == 0) return true;
    leave_as_helper();
    return false;
  }
  void leave_as_helper() {
    if (owner_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      --depth_;
      helper_.fetch_and(~kInside, std::memory_order_relaxed);
      unlock();
      return;
    }
    helper_.fetch_and(~kInside, std::memory_order_release);
    helper_.notify_one();
  }
  /// The event thread will probably enter before the application does. Called by the side that is inside.
  void expect_helper(bool expected) {
    if (expected) helper_.fetch_or(kExpected, std::memory_order_acq_rel);
    else helper_.fetch_and(~kExpected, std::memory_order_acq_rel);
  }
  /// The event thread is inside, or about to enter.
  bool helper_inside() const { return helper_.load(std::memory_order_relaxed) & kInside; }
  /// Seen by the event thread inside: the application waits for it to leave (helped).
  bool application_waits() const { return turns_.load(std::memory_order_relaxed) % 2 != 0; }
  /// How often the application has entered and left: odd while it is inside.
  uint32_t turns() const { return turns_.load(std::memory_order_relaxed); }
  /// `turns` now if the application is outside; else what it will be after the application has left.
  uint32_t turns_outside() const { return turns() + turns() % 2; }

 protected:
  /// As Driving::set_successor.
  void expect_visits(bool on) {
    helped_ = on;
    mutex_.allow_terms(has_barrier_ && !helped_);
  }
  /// Leaves, unless others of its entries are still to end: true when it did, and nobody has taken over yet (helped).
  bool leaves() { return --inside_depth_ == 0; }
  /// Ends one entry of the mutex: true when it was the last one. False: it is held more deeply.
  bool releases() {
    TERN_DEBUG_ASSERT(depth_ != 0);
    if (depth_ == 1) return true;
    --depth_;
    return false;
  }
  void release_mutex() {
    if (shared_) count_turn();
    unlock();
  }
  /// Gives the mutex up completely, however deeply held; returns the depth for `reacquire`. 0: this thread does not
  /// hold it.
  uint32_t release_all() {
    if (!shared_ || owner_.load(std::memory_order_relaxed) != std::this_thread::get_id()) return 0;
    const uint32_t depth = depth_;
    count_turn();
    unlock();
    return depth;
  }
  /// Threads that look for the mutex come first: who gives it up waits.
  void reacquire(uint32_t depth) {
    if (depth == 0) return;
    const std::thread::id me = std::this_thread::get_id();
    mutex_.lock_after_others(me);
    owner_.store(me, std::memory_order_relaxed);
    count_turn();
    depth_ = depth;
  }
  void go_inside() {
    count_turn();
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs with the event thread's membarrier
    if (helper_.load(std::memory_order_acquire) != 0) [[unlikely]]
      await_helper();
  }
  void say_outside() {
    count_turn();
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

 private:
  void lock_mutex(std::thread::id me = std::this_thread::get_id()) {
    mutex_.lock(me);
    owner_.store(me, std::memory_order_relaxed);
  }
  void count_turn() { turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  void unlock() {
    owner_.store(std::thread::id(), std::memory_order_relaxed);
    mutex_.unlock();
  }
  // The event thread leaves after the message it is handling. To be woken costs ten times what that usually takes, so
  // spin first.
  [[gnu::noinline]] void await_helper() {
    uint32_t helper = helper_.fetch_or(0, std::memory_order_acq_rel);  // it may be expected
    if (!(helper & kInside)) return;
    look_at<Look::helper>([&] { return !((helper = helper_.load(std::memory_order_acquire)) & kInside); });
    for (; helper & kInside; helper = helper_.load(std::memory_order_acquire)) helper_.wait(helper);
  }

  bool shared_ = false;
  bool helped_ = false;       ///< an event thread comes now and then
  bool has_barrier_ = false;  ///< of `enable`
  BiasedMutex mutex_;
  std::atomic<std::thread::id> owner_{};
  uint32_t depth_ = 0;
  uint32_t inside_depth_ = 0;
  std::atomic<uint32_t> turns_{0};                       ///< written by the application only; shared: under the mutex
  static constexpr uint32_t kInside = 1, kExpected = 2;  // bits of helper_
  std::atomic<uint32_t> helper_{0};  ///< the event thread: inside or entering (kInside); expected soon (kExpected)
};

}  // namespace tern
