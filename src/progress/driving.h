// Driving: who drives an engine's progress now, and everything that those who may drive share. One object per engine;
// the engine, the helper and the threads that wait are all users of it, and keep no such state of their own.
//
//   driver        who that is                                          begins                       ends
//   application   a thread of the program, inside the library          enter                        leave
//   sleeper       the same, asleep on the paths, the lock given up     begin_sleep                  end_sleep
//   helper        the event thread, inside                             enter_as_helper              leave_as_helper
//   nobody        everybody is outside                                 leave                        enter, or the watch
//
// While nobody drives, `wake_source` says what lets the helper look by itself (event_handler.h); the paths are armed
// for at most one of sleeper and helper (`armed_for`). docs/architecture.md has the picture.
//
// The lock is never given up half way through a poll: another thread would find a round half done, and advance what
// has its turn already. So `give_way` does nothing there.
// Thread rule: inside (rank_lock.h), but for atomics.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/intrusive_list.h"
#include "base/need.h"
#include "progress/condition.h"
#include "progress/event_policy.h"
#include "progress/rank_lock.h"

namespace tern {

enum class Driver : uint8_t { nobody, application, sleeper, helper };

/// The helper's part that takes over from the application. Called inside.
class Successor {
 public:
  /// Whether anything needs polling.
  virtual Need need() = 0;
  /// Called when the present source does not cover what is needed. Returns what is needed now; that is covered then.
  /// `again`: the application has not been inside since the last call of this.
  virtual Need take_over(bool again) = 0;
  /// The application leaves while the helper sleeps on the paths.
  virtual void note_leave() = 0;
  /// The application waits inside: what comes must not wake the helper as well.
  virtual void stand_aside() = 0;
  /// The helper handles every arrival, also while the application waits: who waits sleeps until its condition is true
  /// (Majumder 2004, 4.3.1: LA-MPI-ED). Never changes.
  virtual bool handles_every_arrival() const { return false; }

 protected:
  ~Successor() = default;
};

/// Whose paths a thread sleeps on.
class Slept {
 public:
  /// What has been begun meanwhile may have an earlier deadline than the sleep: then it ends. Inside.
  virtual void note_deadline() = 0;

 protected:
  ~Slept() = default;
};

class Driving final : public RankLock {
 public:
  /// For whom the paths are armed: who is woken by what comes.
  enum class Armed : uint8_t { nobody, sleeper, helper };

  Driver driver() const {
    if (sleep.engine) return Driver::sleeper;
    if (helper_inside()) return Driver::helper;
    return turns() % 2 != 0 ? Driver::application : Driver::nobody;
  }

  // --- The application leaves: somebody else takes over.
  void leave() {
    if (enabled()) [[unlikely]] {
      release();
    } else if (leaves()) {
      go_outside();
    }
  }
  void release();

  // --- Others may enter for a while.
  /// Gives the mutex up completely, however deeply held; returns what `come_back` needs. 0: this thread does not hold
  /// it, or is in the middle of a round.
  uint32_t give_way() { return in_round() ? 0 : release_all(); }
  void come_back(uint32_t depth) { reacquire(depth); }

  /// Who takes over when the application leaves. Null: nobody. Not owned. Called inside, or while the mutex is held and
  /// the application is not inside.
  void set_successor(Successor* successor) {
    successor_ = successor;
    expect_visits(successor != nullptr);
  }
  Successor* successor() { return successor_; }
  /// What wakes the event thread. A single word, so there is always one answer (event_handler.h says who changes it).
  std::atomic<WakeSource>& wake_source() { return wake_source_; }

  /// A thread of the program that waits until it is called.
  struct Follower : ListHook<Follower> {
    explicit Follower(const Condition& condition) : done(condition) {}
    const Condition& done;
    const std::thread::id thread = std::this_thread::get_id();
    std::atomic<uint32_t> called{0};  ///< 1: called
  };

  bool in_round() const { return polling || advancing; }
  bool polling = false;    ///< inside of a poll
  bool advancing = false;  ///< somebody has its turn, in a poll or before a sleep
  bool changed = false;    ///< inside of a poll: the condition of a thread that waits may be true now
  Armed armed_for = Armed::nobody;
  bool unarmed = false;  ///< a path was not armed with the others, and a thread may wait for it now
  /// Threads of the program that wait inside.
  struct Sleep {
    /// In a wait until they are called, most of them asleep; one may be asleep on the paths.
    /// Changed inside; `ProgressEngine::notify` also reads it elsewhere (engine_gate.h).
    std::atomic<int> sleepers{0};
    int sleeping() const { return sleepers.load(std::memory_order_relaxed); }
    void count_sleeper(int more) {
      TERN_DEBUG_ASSERT(sleeping() + more >= 0);
      sleepers.store(sleeping() + more, std::memory_order_relaxed);
    }
    /// While it is not 0 nobody sleeps: who sends this rank messages expects that somebody polls.
    uint32_t kept_awake = 0;
    int turning = 0;                    ///< awake, and give the lock up for a pause or a sched_yield
    int called = 0;                     ///< followers that are called, and not inside yet
    std::thread::id driver;             ///< slept on the paths last, or is called to; or none
    Slept* engine = nullptr;            ///< on whose paths a thread is asleep; null: none is
    const Condition* until = nullptr;   ///< what that thread waits for
    uint64_t deadline_ns = 0;           ///< when its sleep ends, or ~0
    bool woken = false;                 ///< it was woken
    IntrusiveList<Follower> followers;  ///< the others
  } sleep;
  /// What the application and the helper tell each other.
  struct Helping {
    uint64_t deadline_ns = 0;                ///< of the paths, as the timer was last set for it; armed for the helper
    std::atomic<uint64_t> timer_ends_ns{0};  ///< clock time; in the past: it is not set
    std::atomic<uint32_t> seen_turns{0};     ///< the lock's turns and short calls when the timer was set, by its setter
  } helping;

 private:
  bool has_timer() const { return wake_source_.load(std::memory_order_relaxed) == WakeSource::timer; }
  // Between calls that follow one another closely the timer runs: one word is read, on entry and on leaving.
  void go_outside() {
    if (!successor_ || has_timer()) [[likely]] {
      say_outside();
      if (!successor_ || has_timer()) [[likely]]
        return;
      go_inside();
    }
    go_outside_slow();
  }
  void go_outside_slow();
  Need needs_helper();
  bool covered(Need needed) const { return covers(wake_source_.load(std::memory_order_relaxed), needed); }

  std::atomic<WakeSource> wake_source_{WakeSource::nobody};
  Successor* successor_ = nullptr;
};

}  // namespace tern
