// HandOverMutex: a mutex for short calls of several threads. To wake a sleeper takes as long as hundreds of calls, so
//
//  - who waits looks for a moment before it sleeps: the holder is inside for some 0.1 us. It looks less and less often:
//    every change of hands costs several times a call, since what the calls use goes to the other core;
//  - an unlock does not hand over to a sleeper: it wakes one, and the thread that is awake may come again meanwhile.
//    Until that one sleeper has arrived nobody is woken, however often the mutex is given up;
//  - a thread that has looked in vain reserves the mutex. Threads without a reservation do not take it then. So the
//    longest wait is a wake-up, the looks, the call of the present holder, and one call of each other thread with a
//    reservation.
//
//   free ──> held           lock: nobody waits
//    ^        │ unlock      a sleeper is registered and none is on its way: woken is set, one is woken
//    └────────┘
//   waits:  looks ──> reserved, looks ──> yields ──> asleep ──> (woken) reserved, looks ...
//
// Reservations are counted, so each thread takes back its own. A thread has a reservation only while it looks. A thread
// that was preempted with a reservation keeps nobody away: the others look in vain, and then reserve the mutex, too.
//
// Why no wake-up is lost: all of it is one word. A sleeper waits in the kernel only for the word to change from a value
// that says "held, I am registered, nobody is on its way". So the holder's unlock changes it, finds a sleeper and wakes
// one. `woken` is taken back by every sleeper that is awake, before it takes the mutex or sleeps again.
// Thread rule: any thread; unlock by the holder. No more than 32767 threads.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "base/assert.h"
#include "base/futex.h"
#include "base/hints.h"
#include "base/looks.h"

namespace tern {

class HandOverMutex {
 public:
  struct Patience {
    uint32_t looks = limits_of(Look::lock).looks;           ///< or pauses between them, before it is reserved
    uint32_t reserved_looks = limits_of(Look::lock).looks;  ///< after each pause
    uint32_t yields = 4;                                    ///< of the core, for a holder that waits for the same core
  };
  HandOverMutex() = default;
  /// For tests.
  explicit HandOverMutex(Patience patience) : patience_(patience) {}
  HandOverMutex(const HandOverMutex&) = delete;
  HandOverMutex& operator=(const HandOverMutex&) = delete;

  bool try_lock() { return take_unless(kHeld | kReservations); }
  void lock() {
    if (!try_lock()) [[unlikely]]
      wait();
  }
  void unlock() {
    const uint32_t before = word_.fetch_and(~kHeld, std::memory_order_release);
    TERN_ASSERT(before & kHeld);
    if (before >= kSleeper && !(before & kWoken)) [[unlikely]]
      wake();
  }
  /// Takes the mutex again for a thread that waits for a message: threads that look for the mutex now come first.
  void lock_after_others() {
    if (looking_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      for (uint32_t i = 0; i < kPolite && looking_.load(std::memory_order_relaxed) != 0 && !held(); ++i) cpu_pause();
    }
    lock();
  }
  /// Whether threads wait for it, awake or asleep.
  bool wanted() const {
    return looking_.load(std::memory_order_relaxed) != 0 || word_.load(std::memory_order_relaxed) >= kSleeper;
  }
  /// How many threads have reserved it (for tests).
  uint32_t reservations() const { return (word_.load(std::memory_order_relaxed) & kReservations) / kReservation; }

 private:
  static constexpr uint32_t kHeld = 1, kWoken = 2;   ///< bits of the word
  static constexpr uint32_t kReservation = 1u << 2;  ///< one of those whose number is in the bits below kSleeper
  static constexpr uint32_t kSleeper = 1u << 17;     ///< one of the registered sleepers, whose number is the rest
  static constexpr uint32_t kReservations = kSleeper - kReservation;
  /// The most pauses between two looks; so who waits this long lets those who look have it. Some 10 trips of a cache
  /// line.
  static constexpr uint32_t kPolite = 32;

  bool held() const { return word_.load(std::memory_order_relaxed) & kHeld; }
  /// Takes it unless one of these bits is set, and takes back what this thread has put in the word.
  bool take_unless(uint32_t bits, uint32_t own = 0) {
    uint32_t word = word_.load(std::memory_order_relaxed);
    return !(word & bits) && take(word, (word - own) | kHeld);
  }
  bool take(uint32_t& word, uint32_t desired) {
    return word_.compare_exchange_strong(word, desired, std::memory_order_acquire, std::memory_order_relaxed);
  }
  bool look() {
    looking_.fetch_add(1, std::memory_order_relaxed);
    bool taken = take_unless(kHeld | kReservations);
    for (uint32_t spent = 0, pauses = 1; spent < patience_.looks && !taken; spent += pauses) {
      for (uint32_t i = 0; i < pauses; ++i) cpu_pause();
      if (pauses < kPolite) pauses *= 2;
      taken = take_unless(kHeld | kReservations);
    }
    looking_.fetch_sub(1, std::memory_order_relaxed);
    return taken;
  }
  bool look_and_reserve(uint32_t own) {
    looking_.fetch_add(1, std::memory_order_relaxed);
    word_.fetch_add(kReservation, std::memory_order_relaxed);
    bool taken = take_unless(kHeld, own + kReservation);
    for (uint32_t i = 0; i < patience_.reserved_looks && !taken; ++i) {
      cpu_pause();
      taken = take_unless(kHeld, own + kReservation);
    }
    if (!taken) word_.fetch_sub(kReservation, std::memory_order_relaxed);
    looking_.fetch_sub(1, std::memory_order_relaxed);
    return taken;
  }
  [[gnu::noinline]] void wait() {
    if (look() || look_and_reserve(0)) return;
    // The holder does not run, or is in a long call.
    for (uint32_t i = 0; i < patience_.yields; ++i) {
      sched_yield();
      if (take_unless(kHeld)) return;
    }
    sleep();
  }
  void sleep() {
    word_.fetch_add(kSleeper, std::memory_order_relaxed);
    while (true) {
      uint32_t word = word_.load(std::memory_order_relaxed);
      if (!(word & kHeld)) {
        if (take(word, ((word - kSleeper) & ~kWoken) | kHeld)) return;
      } else if (word & kWoken) {
        // Woken, but another was quicker.
        word_.fetch_and(~kWoken, std::memory_order_relaxed);
        if (look_and_reserve(kSleeper)) return;
      } else {
        futex_wait(word_, word);
      }
    }
  }
  [[gnu::noinline]] void wake() {
    if (!(word_.fetch_or(kWoken, std::memory_order_relaxed) & kWoken)) futex_wake_one(word_);
  }

  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> looking_{0};  ///< threads in `look`
  const Patience patience_{};
};

}  // namespace tern
