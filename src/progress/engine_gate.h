// EngineGate: who may use a message engine (p2p/engines.h): short calls of any thread, one at a time, or the thread
// that holds the rank's lock, which needs nothing else then.
//
//   open      a short call takes the gate's mutex. It neither waits inside nor touches anything else of the rank.
//   closed    short calls are refused: they take the rank's lock as all others do, and visit
//
// A visit is a call under the rank's lock that uses the engine. It begins by closing the gate: takes the mutex, so that
// no short call is inside, and marks it. It lasts until the call's end, also while the call waits and has given the
// rank's lock up. The gate is closed then: another thread changes the engine under the rank's lock only, and wakes the
// waiting call. The last visitor opens the gate again if the engine is idle (nothing in it needs the rank's polls):
//
//   - at once, if the visitors were calls that are short otherwise (a receive that had to wait);
//   - after some such calls in a row, if another kind of call came between.
//
// Why never two use it: `open` changes under the rank's lock only, and becomes false under the mutex. A short call
// looks at it once it has the mutex. What a visitor has changed is seen by the short call that sees the gate open
// (release, acquire), and what a short call has changed by who takes the mutex after it. Thread rule: `enter` and
// `leave` by any thread; all else under the rank's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/assert.h"
#include "base/membarrier.h"
#include "progress/biased_mutex.h"

namespace tern {

class EngineGate {
 public:
  /// Short calls in a row, each with the rank's lock, before the gate opens after a call of another kind. To close it
  /// costs about as much as such a call, so a program that mixes both kinds loses little.
  static constexpr uint32_t kStreak = 8;

  EngineGate() { mutex_.allow_terms(register_barrier_everywhere()); }
  /// For tests.
  EngineGate(HandOverMutex::Patience patience, uint64_t streak) : mutex_(patience, streak) { mutex_.allow_terms(true); }
  EngineGate(const EngineGate&) = delete;
  EngineGate& operator=(const EngineGate&) = delete;

  // --- Short calls. `me`: the calling thread.
  /// False: it is closed.
  bool enter(std::thread::id me) {
    if (!open_.load(std::memory_order_relaxed)) return false;
    mutex_.lock(me);
    if (open_.load(std::memory_order_acquire)) [[likely]]
      return true;
    mutex_.unlock();
    return false;
  }
  void leave() { mutex_.unlock(); }
  /// By a thread that has the rank's lock, too: closes it at the same time.
  void leave_closed() {
    open_.store(false, std::memory_order_relaxed);
    opens_at_once_ = true;
    mutex_.unlock();
  }

  // --- Calls that have the rank's lock.
  /// `is_short`: a call that would have been short had the gate been open, and had it found what it wants.
  /// Returns whether it was open.
  bool begin_visit(std::thread::id me, bool is_short) {
    ++visitors_;
    const bool closed = close(me);
    if (closed || !is_short) opens_at_once_ = closed && is_short;
    streak_ = is_short ? streak_ + 1 : 0;
    return closed;
  }
  /// `idle`: asked when the gate might open.
  template <typename Idle>
  void end_visit(Idle&& idle) {
    TERN_DEBUG_ASSERT(visitors_ != 0);
    if (--visitors_ != 0 || retired_ || (!opens_at_once_ && streak_ < kStreak) || !idle()) return;
    opens_at_once_ = false;
    streak_ = 0;
    open_.store(true, std::memory_order_release);
  }
  /// Closes the gate without a visit. The caller keeps the rank's lock until it is done with the engine. The next call
  /// that ends a visit may open the gate again. Returns whether it was open.
  bool close(std::thread::id me) {
    if (!is_open()) return false;
    mutex_.lock(me);
    open_.store(false, std::memory_order_relaxed);
    mutex_.unlock();
    opens_at_once_ = true;
    return true;
  }
  /// Closed for good. Returns whether it was open.
  bool retire(std::thread::id me) {
    retired_ = true;
    return close(me);
  }
  /// Before any call, for tests.
  void open_at_first() { open_.store(true, std::memory_order_relaxed); }
  bool is_open() const { return open_.load(std::memory_order_relaxed); }
  bool is_retired() const { return retired_; }
  bool is_visited() const { return visitors_ != 0; }

 private:
  BiasedMutex mutex_;
  std::atomic<bool> open_{false};
  // The rank's.
  uint32_t visitors_ = 0;
  uint32_t streak_ = 0;         ///< visits of short calls in a row
  bool opens_at_once_ = false;  ///< for the last visitor
  bool retired_ = false;
};

}  // namespace tern
