// The progress engine: polls paths and advances what registered with it, and waits. One per rank.
// Thread rule: called under the rank's lock; `wait_until` gives the lock up between empty polls.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/hints.h"
#include "base/intrusive_list.h"
#include "base/recorder.h"
#include "fabric/pollable.h"
#include "progress/idle.h"
#include "progress/watch.h"

namespace tern {

/// Work that wants a turn in every poll while it is active (a collective schedule, a generalized poll).
class Advanceable : public ListHook<Advanceable> {
 public:
  /// Does what can be done without waiting; returns how much was done. May remove itself from the engine. Not called
  /// again before it has returned, also where it polls.
  virtual int advance() = 0;

 protected:
  ~Advanceable() = default;
};

class EventHandler;

class alignas(64) ProgressEngine {
 public:
  /// Owns nothing. `counters`: where the rank counts; null: here. `tracer`: where events are recorded; null: nowhere.
  ProgressEngine(Clock& clock, Idle& idle, Counters* counters = nullptr, Recorder* tracer = nullptr)
      : own_counters_(counters ? nullptr : std::make_unique<Counters>()),
        clock_(clock),
        idle_(idle),
        tracer_(tracer),
        counters_(counters ? *counters : *own_counters_) {}

  /// Polled in the order of adding; not owned. Who sleeps on the others looks again, and arms it, too. `interval`: poll
  /// it only in every so-manieth round (for paths whose poll costs a system call while a cheaper path is in use).
  void add(Pollable& pollable, uint32_t interval = 1);
  /// Not owned; null: none.
  void set_watch(WaitWatch* watch) { watch_ = watch; }
  WaitWatch* watch() { return watch_; }
  void activate(Advanceable& work) { active_.push_back(&work); }
  void deactivate(Advanceable& work);
  /// Polls while the application is outside the library, and leaves the paths alone while a thread waits inside. Not
  /// owned; null: none.
  void set_handler(EventHandler* handler) { handler_ = handler; }
  /// From now on `item` gets its turn in every poll.
  bool has_work() const { return !active_.empty(); }

  /// One round; returns how much was done.
  int poll();
  /// Less than a round: `part` alone, a look at what is likely to be there. Every so-manieth is a whole round, so that
  /// a program that always finds what it looks for keeps the others served.
  template <typename Part>
  int poll_part(Part&& part) {
    if (++parts_ % kPartsInARow == 0) [[unlikely]]
      return poll();
    const bool outer = polling_;
    int done;
    {
      const Polling polling(*this);
      done = part();
    }
    call_others(outer, done);
    return done;
  }
  /// One round for a call that does not wait, and may be one of many in a loop (MPI_Test).
  void look() {
    if (poll() != 0) {
      empty_looks_ = 0;
    } else if (++empty_looks_ % Idle::kLooks == 0) {
      idle_.on_empty_looks(*this);
    }
  }
  /// Sends small messages that paths hold back (PollHints::holding). For calls that do not wait and do not poll.
  void release_held() {
    for (const Slot& slot : slots_) {
      if (!slot.hints->holding) [[likely]]
        continue;
      poll_all();
      return;
    }
  }
  /// Whether this is called from inside of poll (by a path's sink, by an Advanceable). The rank's lock stays held
  /// there: another thread would find a round half done.
  bool polling() const { return polling_; }
  /// A round that polls every path, whatever its interval (before sleeping, at the end).
  int poll_all();
  /// The condition of another waiting thread of this rank may be true now. That thread is called at the end of the
  /// poll.
  void notify() {
    if (idle_.sleepers == 0) return;
    if (polling_) {
      changed_ = true;
    } else {
      idle_.wake(*this);
    }
  }

  /// Polls until `done()`; waits as `Idle` says when nothing happens. `done` may be asked again after it has returned
  /// true, and must not poll: it is also asked while the paths are armed, which a poll would undo.
  template <typename Predicate>
  void wait_until(Predicate&& done, EndedBy ended_by = EndedBy::ranks) {
    Wait wait{.ended_by = ended_by};
    const auto pauses_now = [&] { return ended_by == EndedBy::ranks ? idle_.pauses : 0; };
    uint32_t pauses = pauses_now();  // left until relax is called
    uint64_t since_ns = 0;           // first of the empty polls in a row; only while the timer is wanted
    bool aside = !handler_;          // the handler stands aside, at least until this rank's lock is given up
    bool relaxed = false;
    while (!done()) {
      if (!aside) [[unlikely]] {
        call_handler_aside();
        aside = true;
      }
      if (poll() != 0) {
        if (since_ns != 0) [[unlikely]]
          end_wait(since_ns);
        if (wait.empty != 0) {
          if (wait.is_long()) [[unlikely]]
            idle_.found(*this, wait);
          wait = Wait{.ended_by = ended_by};
        }
        pauses = pauses_now();
        continue;
      }
      if (wait.empty++ == 0 && counters_.timing != 0) [[unlikely]]
        since_ns = clock_.now_ns();
      if (pauses != 0) {
        --pauses;
        cpu_pause();
      } else {
        if (watch_) watch_->on_empty_polls(wait.empty);
        // Another thread may complete our request while the lock is given up: `done` is asked again first.
        idle_.relax(*this, wait, Condition(done));
        pauses = pauses_now();
        aside = !handler_;
        relaxed = true;
      }
    }
    if (relaxed) {
      if (wait.is_long()) idle_.found(*this, wait);
      idle_.end_wait(*this);
      if (watch_) watch_->on_wait_over();
    }
    if (since_ns != 0) [[unlikely]]
      end_wait(since_ns);
  }

  // For Idle: everything it needs to sleep safely.
  /// Not while they are armed. False: somebody has something to do, and nothing is armed.
  bool arm_all();
  /// Those that arm_all has armed: not what was added since.
  void disarm_all();
  uint64_t next_deadline_ns() const;
  bool arriving() const;                  ///< a message is arriving on some path
  uint64_t pollable_deadline_ns() const;  ///< without the watch, which only waiting ranks use
  const std::vector<Pollable*>& pollables() const { return pollables_; }
  Clock& clock() { return clock_; }
  Counters& counters() { return counters_; }
  Recorder* tracer() { return tracer_; }
  Idle& idle() { return idle_; }

 private:
  struct Slot {
    Pollable* pollable;
    const PollHints* hints;
    uint32_t interval;
  };
  /// Looks from one whole round to the next. A round may ask the kernel, which takes as long as 32 looks.
  static constexpr uint32_t kPartsInARow = 32;

  /// Inside of poll, also when it ends by an exception.
  class Polling {
   public:
    explicit Polling(ProgressEngine& engine) : engine_(engine), outer_(std::exchange(engine.polling_, true)) {}
    ~Polling() { engine_.polling_ = outer_; }
    Polling(const Polling&) = delete;
    Polling& operator=(const Polling&) = delete;
    bool outer() const { return outer_; }

   private:
    ProgressEngine& engine_;
    const bool outer_;
  };

  int advance_all();
  bool has_turn(const Advanceable& work) const;
  void end_wait(uint64_t& since_ns);
  void call_handler_aside();
  /// At the end of a poll: other threads of this rank that wait for what it has done.
  void call_others(bool outer, int done) {
    if (idle_.sleepers == 0 || outer || (done == 0 && !changed_)) [[likely]]
      return;
    changed_ = false;
    idle_.call_ready(*this);
  }

  std::unique_ptr<Counters> own_counters_;
  std::vector<Pollable*> pollables_;
  size_t armed_ = 0;  ///< so many of them, the first: somebody sleeps on them, or will
  Clock& clock_;
  Idle& idle_;
  Recorder* tracer_;
  Counters& counters_;
  // What every wait uses: one cache line.
  alignas(64) std::vector<Slot> slots_;
  IntrusiveList<Advanceable> active_;
  /// The rounds of turns that are under way: one, or more where a turn polls.
  struct Round {
    Advanceable* now = nullptr;   ///< whose turn it is; null: it is active no more
    Advanceable* next = nullptr;  ///< who follows
    Round* outer = nullptr;
  };
  Round* turns_ = nullptr;
  uint32_t round_ = 0, parts_ = 0;
  uint32_t empty_looks_ = 0;  ///< in a row
  bool polling_ = false;
  bool changed_ = false;  ///< notify was called from inside of the present poll
  WaitWatch* watch_ = nullptr;
  EventHandler* handler_ = nullptr;
};

}  // namespace tern
