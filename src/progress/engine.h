// The progress engine: polls paths and advances what registered with it (rounds.h), and waits (waiting.cc carries out
// the policy of wait_policy.h). Who drives, and what those who may drive share, stands in its Driving. A rank has one
// engine, and may have several: they share nothing.
// Thread rule: called under the rank's lock; `wait_until` gives the lock up between empty polls.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/hints.h"
#include "base/looks.h"
#include "base/recorder.h"
#include "progress/between_polls.h"
#include "progress/rounds.h"
#include "progress/wait_observer.h"
#include "progress/wait_policy.h"
#include "progress/wait_port.h"

namespace tern {

class alignas(64) ProgressEngine final : public Rounds, private Slept {
 public:
  /// Owns nothing. `counters`: where the rank counts; null: here. `tracer`: where events are recorded; null: nowhere.
  /// `setup`: the default waits as a rank does that sleeps after its first empty poll.
  ProgressEngine(Clock& clock, Driving& driving, WaitPort& port, const WaitPolicy::Setup& setup = WaitPolicy::Setup(),
                 Counters* counters = nullptr, Recorder* tracer = nullptr);

  /// Polled in the order of adding; not owned. Who sleeps on the others looks again, and arms it, too. `interval`: poll
  /// it only in every `interval`-th round (for paths whose poll costs a system call while a cheaper path is in use).
  void add(Pollable& pollable, uint32_t interval = 1);
  /// A pollable that was not armed should be: the next thread that waits to be called wakes who sleeps, for that.
  void note_unarmed();
  /// Not owned; null: none.
  void set_wait_observer(WaitObserver* observer) { observer_ = observer; }
  /// Done by threads that wait or look, between their polls; null: nothing is to be done now. Not owned.
  void set_between_polls(BetweenPolls* work);
  /// A sleep also ends when this descriptor is readable, until it is closed. It may be watched already.
  void watch(int descriptor) { port_.watch(descriptor); }

  /// One round; returns how much was done.
  int poll() {
    const bool outer = driving_.polling;
    const int done = round();
    call_others(outer, done);
    return done;
  }
  /// Less than a round: `part` alone, a look at what is likely to be there. Now and then it is a whole round, so that a
  /// program that always finds what it looks for keeps the others served.
  template <typename Part>
  int poll_part(Part&& part) {
    if (++parts_ % limits_of(Look::part).looks == 0) [[unlikely]]
      return poll();
    const bool outer = driving_.polling;
    int done;
    {
      const Polling polling(driving_);
      done = part();
    }
    call_others(outer, done);
    return done;
  }
  /// One round for a call that does not wait, and may be one of many in a loop (MPI_Test).
  void look() {
    if (poll() != 0) {
      empty_looks_ = 0;
    } else if (++empty_looks_ % limits_of(Look::test).looks == 0) {
      on_empty_looks();
    }
    if (between_polls_) [[unlikely]]
      run_between_polls();
  }
  /// Sends small messages that paths hold back (PollHints::holding). For calls that do not wait and do not poll.
  void release_held() {
    if (any_held()) [[unlikely]]
      poll_all();
  }
  /// A round that polls every path, whatever its interval (before sleeping, at the end).
  int poll_all() {
    const int seldom = poll_seldom();
    return seldom + poll();
  }
  /// The condition of another waiting thread of this rank may be true now. That thread is called at the end of the
  /// poll. In a short call, which has a message engine but not the rank (engine_gate.h), nothing: nobody waits for what
  /// such a call does.
  void notify() {
    if (driving_.sleep.sleeping() != 0) notify_sleepers();
  }
  /// After a helper's polls: the conditions of threads that wait may also depend on changes that no poll reports.
  void ask_waiting() {
    if (driving_.sleep.sleeping() != 0) call_ready();
  }
  /// While `on` (of several, any) no thread of this rank sleeps: who sends it messages expects that somebody polls.
  void keep_awake(bool on);
  bool kept_awake() const { return driving_.sleep.kept_awake != 0; }
  /// A rank that waits polls all the time: no other thread or rank needs its core.
  bool polls_closely() const { return pauses_ != 0; }
  /// Where it does: whether `found` has come true within the looks of this kind. Nothing is polled between them.
  template <Look kind, typename Found>
  bool look_closely(Found&& found) const {
    return polls_closely() && look_at<kind>(found);
  }

  /// Polls until `done()`; pauses, yields or sleeps when nothing happens. `done` may be asked again after it has
  /// returned true, and must not poll: it is also asked while the paths are armed, which a poll would undo.
  template <typename Predicate>
  void wait_until(Predicate&& done, EndedBy ended_by = EndedBy::ranks) {
    Wait wait{.ended_by = ended_by};
    const auto pauses_now = [&] { return ended_by == EndedBy::ranks ? pauses_ : 0; };
    uint32_t pauses = pauses_now();      // left until relax is called
    uint64_t since_ns = 0;               // first of the empty polls in a row; only while the timer is wanted
    bool aside = !driving_.successor();  // the helper stands aside, at least until this rank's lock is given up
    bool relaxed = false;
    while (!done()) {
      if (!aside) [[unlikely]] {
        if (driving_.successor()->handles_every_arrival() && await_helper(wait, Condition(done))) {
          aside = !driving_.successor();
          relaxed = true;
          continue;
        }
        driving_.successor()->stand_aside();
        aside = true;
      }
      if (poll() != 0) {
        if (since_ns != 0) [[unlikely]]
          count_wait(since_ns);
        if (wait.empty != 0) {
          if (wait.is_long()) [[unlikely]]
            look_at_clock(wait);
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
        // Another thread may complete our request while the lock is given up: `done` is asked again first.
        relax(wait, Condition(done));
        pauses = pauses_now();
        aside = !driving_.successor();
        relaxed = true;
      }
    }
    if (relaxed) end_wait(wait);
    if (since_ns != 0) [[unlikely]]
      count_wait(since_ns);
  }

  Clock& clock() { return clock_; }
  Recorder* tracer() { return tracer_; }

 private:
  using Step = WaitPolicy::Step;
  void count_wait(uint64_t& since_ns);
  void notify_sleepers();
  /// At the end of a poll: other threads of this rank that wait for what it has done.
  void call_others(bool outer, int done) {
    if (driving_.sleep.sleeping() == 0 || outer || (done == 0 && !driving_.changed)) [[likely]]
      return;
    driving_.changed = false;
    call_ready();
  }

  // waiting.cc
  void relax(Wait& wait, const Condition& done);
  Step look_at_clock(Wait& wait);
  void on_empty_looks();
  bool run_between_polls();
  void yield(Step step);
  void give_core();
  template <typename Pass>
  void give_turn(Pass&& pass);
  void sleep(const Condition& done);
  void drive(const Condition& done);
  void sleep_on_paths(const Condition& done);
  template <typename Sleep>
  void sleep_until_called(const Condition& done, Sleep&& sleep);
  bool await_helper(Wait& wait, const Condition& done);
  void follow(const Condition& done);
  void call(Driving::Follower& follower);
  void call_ready();
  void wake();
  void end_wait(Wait& wait);
  void note_deadline() override;
  uint64_t next_deadline_ns() const;

  Clock& clock_;
  uint32_t pauses_;  ///< empty polls before each `relax` that only pause the processor; 0 if others need the core
  uint32_t parts_ = 0;
  uint32_t empty_looks_ = 0;  ///< in a row
  BetweenPolls* between_polls_ = nullptr;
  WaitObserver* observer_ = nullptr;
  WaitPort& port_;
  Recorder* tracer_;
  size_t watched_ = 0;  ///< paths whose descriptor the port watches
  WaitPolicy policy_;
};

}  // namespace tern
