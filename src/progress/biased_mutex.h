// BiasedMutex: a mutex (hand_over_mutex.h) of a program that may call from any thread, but mostly does from one for a
// while: that one comes and goes with plain stores (biased locking; Kawachiya, Koseki and Onodera 2002, and the
// asymmetric fences of Dice, Huang and Yang 2001).
//
//   A thread that has taken the mutex kStreak times in a row gets a *term*. While the term lasts, the thread does not
//   touch the mutex: it is inside while the term's `inside` is 1. Another thread that comes takes the mutex, ends the
//   term, and waits until the term's thread is outside.
//
// Why never two are inside: the term's thread stores "inside", then reads whether the term lasts. Who ends it stores
// that, calls membarrier, then reads `inside`. So either the one finds its term ended, and goes back, or the other
// finds it inside, and waits. A thread that was interrupted between reading its term and storing "inside" may do so
// long after the term has ended; so a term is never used again, and each is harder to get than the one before. Thread
// rule: any thread; `unlock` and `allow_terms` by the holder.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/assert.h"
#include "base/futex.h"
#include "base/looks.h"
#include "base/membarrier.h"
#include "progress/hand_over_mutex.h"

namespace tern {

class BiasedMutex {
 public:
  BiasedMutex() = default;
  /// For tests. `streak`: how often in a row for the first term.
  BiasedMutex(HandOverMutex::Patience patience, uint64_t streak) : mutex_(patience), streak_wanted_(streak) {}
  BiasedMutex(const BiasedMutex&) = delete;
  BiasedMutex& operator=(const BiasedMutex&) = delete;

  /// Whether terms may begin; not without register_barrier_everywhere, and not where another thread comes regularly.
  /// One that has begun lasts until another thread comes. At first none may.
  void allow_terms(bool allowed) { allowed_ = allowed; }

  /// `me`: the calling thread.
  void lock(std::thread::id me) {
    if (enter_by_term(me)) return;
    mutex_.lock();
    has_mutex(me);
  }
  /// As HandOverMutex.
  void lock_after_others(std::thread::id me) {
    if (enter_by_term(me)) return;
    mutex_.lock_after_others();
    has_mutex(me);
  }
  /// May wait for the end of a term.
  bool try_lock(std::thread::id me) {
    if (!mutex_.try_lock()) return false;
    has_mutex(me);
    return true;
  }
  void unlock() {
    if (Term* term = entered_by_) {
      leave(*term);
    } else {
      mutex_.unlock();
    }
  }
  /// Whether threads wait for it, awake or asleep.
  bool wanted() const { return mutex_.wanted(); }
  /// Whether a term lasts (for tests).
  bool biased() const { return term_.load(std::memory_order_relaxed) != nullptr; }

 private:
  struct Term {
    std::thread::id thread;
    std::atomic<uint32_t> inside{0};
  };
  /// Calls in a row before the first term. The barrier that ends a term takes some 12 us; a call in a term saves 12 ns
  /// (two atomic operations). So a term pays after 1000 calls.
  static constexpr uint64_t kStreak = 1000;
  /// Each asks for twice as many as the one before: the last one for ten thousand million.
  static constexpr uint32_t kTerms = 24;

  bool enter_by_term(std::thread::id me) {
    Term* term = term_.load(std::memory_order_acquire);
    return term && term->thread == me && enter(*term);
  }
  bool enter(Term& term) {
    term.inside.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs with end_term's barrier
    if (term_.load(std::memory_order_relaxed) != &term) [[unlikely]] {
      leave(term);
      return false;
    }
    entered_by_ = &term;
    return true;
  }
  void leave(Term& term) {
    term.inside.store(0, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the same
    if (term_.load(std::memory_order_relaxed) != &term) [[unlikely]]
      futex_wake_one(term.inside);
  }
  void has_mutex(std::thread::id me) {
    if (term_.load(std::memory_order_relaxed)) [[unlikely]]
      end_term();
    entered_by_ = nullptr;
    if (me != last_) {
      last_ = me;
      streak_ = 0;
    } else if (++streak_ >= streak_wanted_ && allowed_ && made_ != kTerms) [[unlikely]] {
      begin_term(me);
    }
  }
  // This time the mutex is held as usual.
  [[gnu::noinline]] void begin_term(std::thread::id me) {
    Term& term = terms_[made_++];
    term.thread = me;
    streak_ = 0;
    streak_wanted_ *= 2;
    term_.store(&term, std::memory_order_release);
  }
  [[gnu::noinline]] void end_term() {
    Term& term = *term_.load(std::memory_order_relaxed);
    term_.store(nullptr, std::memory_order_relaxed);
    barrier_everywhere();
    const auto outside = [&] { return term.inside.load(std::memory_order_acquire) == 0; };
    if (look_at<Look::lock>(outside)) return;
    while (!outside()) futex_wait(term.inside, 1);
  }

  HandOverMutex mutex_;
  std::atomic<Term*> term_{nullptr};  ///< the present term; null: none. Changed by the holder of the mutex
  // The holder's.
  Term* entered_by_ = nullptr;  ///< null: it has the mutex
  bool allowed_ = false;
  std::thread::id last_;  ///< who had the mutex last
  uint64_t streak_ = 0;   ///< and how often in a row before that
  uint64_t streak_wanted_ = kStreak;
  uint32_t made_ = 0;
  Term terms_[kTerms];
};

}  // namespace tern
