// WindowGate: who may use what a rank keeps about a window as its origin: short calls (capi/without_lock.h) of many
// threads at the same time, or the thread that holds the rank's lock.
//
//   open      a short call puts to, or gets from, memory that the rank reaches by loads and stores. It reads what the
//             rank keeps about the window, and changes nothing but the memory. It does not wait.
//   closed    short calls are refused: they take the rank's lock as all others do, and visit
//
// A visit is a call under the rank's lock that names the window. It closes the gate: from then on short calls are
// refused, and it waits until none is inside. The gate stays closed until the last visitor has left, also while a
// visitor waits and has given the rank's lock up. What comes for the window from other ranks closes the gate, too. It
// opens after a visit when many calls in a row were such puts and gets, and what they read will not change by itself
// ("idle"). To close an open gate costs some 12 us, so each time more such calls are asked for.
//
// Why no short call is inside while the gate is closed: a short call stores that it is inside, in its thread's place,
// then looks whether the gate is open. Who closes it stores that, passes a barrier everywhere (base/membarrier.h), then
// reads all places. So either the one finds the gate closed, and goes back, or the other finds it inside, and waits.
// Thread rule: `enter` and `leave` by any thread; all else under the rank's lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/assert.h"
#include "base/counters.h"
#include "base/futex.h"
#include "base/looks.h"
#include "base/membarrier.h"

namespace tern::rma {

class WindowGate {
 public:
  /// Threads that may make short calls; others take the rank's lock.
  static constexpr uint32_t kThreads = 64;

  /// Of one thread.
  struct alignas(64) Place {
    std::atomic<uint32_t> inside{0};
    // The thread's while it is inside, the rank's while the gate is closed.
    uint32_t calls = 0;
    uint64_t puts = 0, gets = 0;  ///< not counted yet
  };

  using Places = std::array<Place, kThreads>;

  WindowGate() : has_barrier_(register_barrier_everywhere()) {}
  /// For tests. `has_barrier`: barrier_everywhere works. `streak`: of the first opening.
  WindowGate(bool has_barrier, uint64_t streak) : has_barrier_(has_barrier), streak_wanted_(streak) {}
  WindowGate(const WindowGate&) = delete;
  WindowGate& operator=(const WindowGate&) = delete;

  // --- Short calls.
  /// `thread`: the number of the calling thread (base/thread_number.h). Null: the gate is closed.
  Place* enter(uint32_t thread) {
    if (!open_.load(std::memory_order_acquire) || thread >= kThreads) return nullptr;
    Place& place = (*places_)[thread];
    TERN_DEBUG_ASSERT(place.inside.load(std::memory_order_relaxed) == 0);
    if (has_barrier_) {
      place.inside.store(1, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // pairs with close's barrier
    } else {
      place.inside.exchange(1, std::memory_order_seq_cst);
    }
    if (open_.load(std::memory_order_seq_cst)) [[likely]]
      return &place;
    leave(place);
    return nullptr;
  }
  void leave(Place& place) {
    if (has_barrier_) {
      place.inside.store(0, std::memory_order_release);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the same
    } else {
      place.inside.exchange(0, std::memory_order_seq_cst);
    }
    if (!open_.load(std::memory_order_seq_cst)) [[unlikely]]
      futex_wake_one(place.inside);
  }

  // --- Calls that have the rank's lock.
  void begin_visit(Counters& counters) {
    ++visitors_;
    close(counters);
    streak_before_ = streak_;
  }
  /// A put or a get that would have been short had the gate been open.
  void count_short() { ++streak_; }
  /// `idle`: asked when the gate might open.
  template <typename Idle>
  void end_visit(Idle&& idle) {
    TERN_DEBUG_ASSERT(visitors_ != 0);
    --visitors_;
    if (streak_ == streak_before_) streak_ = 0;
    if (visitors_ != 0 || streak_ < streak_wanted_) return;
    streak_ = 0;  // the question takes a look at every target
    if (!idle()) return;
    if (!places_) places_ = std::make_unique<Places>();
    open_.store(true, std::memory_order_release);
  }
  /// Without a visit: the caller keeps the rank's lock until it is done with the window. Counts what short calls did.
  void close(Counters& counters) {
    if (!is_open()) return;
    open_.store(false, std::memory_order_seq_cst);
    if (has_barrier_) barrier_everywhere();
    for (Place& place : *places_) {
      const auto outside = [&] { return place.inside.load(std::memory_order_seq_cst) == 0; };
      if (!look_at<Look::lock>(outside)) {
        while (!outside()) futex_wait(place.inside, 1);
      }
      count(place, counters);
    }
    streak_ = 0;
    streak_wanted_ = std::min(2 * streak_wanted_, kLongestStreak);
  }
  /// Before any call, for tests.
  Places& open_at_first() {
    places_ = std::make_unique<Places>();
    open_.store(true, std::memory_order_relaxed);
    return *places_;
  }
  bool is_open() const { return open_.load(std::memory_order_relaxed); }

 private:
  /// A call without the rank's lock saves some tens of nanoseconds, so an opening pays after a thousand.
  static constexpr uint64_t kStreak = 1000, kLongestStreak = uint64_t{1} << 40;

  static void count(Place& place, Counters& counters) {
    counters.rma_puts += place.puts;
    counters.rma_gets += place.gets;
    counters.rma_direct += place.puts + place.gets;
    place.puts = place.gets = 0;
  }

  std::atomic<bool> open_{false};
  const bool has_barrier_;
  std::unique_ptr<Places> places_;  ///< null: it was never open
  // The rank's.
  uint32_t visitors_ = 0;
  uint64_t streak_ = 0, streak_before_ = 0;  ///< calls in a row that would have been short; before the last visit
  uint64_t streak_wanted_ = kStreak;
};

}  // namespace tern::rma
