// Virtual time: the queue of events, and the strands (one per simulated rank) that run in it.
//
// Events happen in the order of (time, order of scheduling): a run is a pure function of what was scheduled. A strand
// runs on its fiber and has a clock of its own, which its work advances beyond the queue's time. Before it looks at the
// world it catches up: everything that happens before its own time happens first:
//
//   queue time   ----e1----e2---------e3---->
//   strand        ...works......| catch_up: e1, e2 happen, then the strand continues; e3 is still in its future
//
// Times in nanoseconds. Thread rule: everything on one thread; event targets run outside all fibers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "sim/event_queue.h"
#include "sim/fiber.h"
#include "sim/threads.h"

namespace tern::sim {

/// What an event is, in a trace. The numbers appear in traces only.
enum class EventKind : uint32_t {
  resume,
  enter,
  switch_port,
  nic,
  deliver,
  window,
  lost,
  send,
  receive,
  get,
  note,
  engine,
  arrive,
  timer
};

/// A target of events. The target defines `datum` (often a pointer); it is no part of the
/// trace.
class EventTarget {
 public:
  virtual void on_event(EventKind kind, uint64_t datum) = 0;

 protected:
  ~EventTarget() = default;
};

struct TraceEntry {
  uint64_t time_ns;
  EventKind kind;
  uint32_t rank;
  uint64_t first, second;
  bool operator==(const TraceEntry&) const = default;
};

class Scheduler {
 public:
  struct Limits {
    uint64_t virtual_ns = kNever_ns;  ///< a run that goes on for longer has failed (a livelock)
    uint64_t events = kNever_ns;
  };

  Scheduler(const Limits& limits, bool keep_trace) : limits_(limits), keep_trace_(keep_trace) {}

  uint64_t now_ns() const { return now_ns_; }
  /// Schedules the event for `target` at `time_ns` (or now, when that is past). `rank` is for the trace.
  void at(uint64_t time_ns, EventTarget& target, EventKind kind, uint32_t rank, uint64_t datum);
  /// Runs events until there are none, `fail` was called, or a limit is passed (a failure, too).
  void run();

  /// Whether any event is still to come, other than a strand's waking itself.
  bool pending() const { return foreign_events_ != 0; }

  /// The first failure ends the run; `why` is for people.
  void fail(std::string why);
  bool failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }

  /// Adds a line to the trace (and its hash) that is not an event.
  void trace(uint64_t time_ns, EventKind kind, uint32_t rank, uint64_t first, uint64_t second);
  uint64_t trace_hash() const { return trace_hash_; }
  const std::vector<TraceEntry>& trace() const { return trace_; }
  uint64_t events() const { return events_; }

 private:
  friend class Strand;
  struct Event {
    uint64_t time_ns;
    uint64_t sequence;
    EventTarget* target;
    EventKind kind;
    uint32_t rank;
    uint64_t datum;
  };
  /// True if nothing is due up to `time_ns`: a strand may then continue without giving control up.
  bool clear_until(uint64_t time_ns) const { return queue_.empty() || queue_.front().time_ns > time_ns; }

  /// Counts a step of the run; false: a limit is passed, and the run has failed.
  bool count_step();

  const Limits limits_;
  EventQueue<Event> queue_;
  uint64_t now_ns_ = 0;
  uint64_t sequence_ = 0;
  uint64_t events_ = 0;
  uint64_t trace_hash_ = 0;
  uint64_t foreign_events_ = 0;  ///< in the queue, of other kinds than resume
  bool keep_trace_;
  std::vector<TraceEntry> trace_;
  std::string failure_;
};

/// The thread of execution of one simulated rank.
class Strand final : public EventTarget {
 public:
  using Body = std::function<void(Strand&)>;
  /// Called with the rank before its fiber runs and with -1 after: the C API's current rank follows (capi/current.h).
  using OnSwitch = std::function<void(int rank)>;

  Strand(Scheduler& scheduler, uint32_t rank, std::byte* stack, size_t stack_bytes, Body body,
         const OnSwitch& on_switch);

  /// Starts running at that time. Once.
  void start(uint64_t time_ns);
  uint32_t rank() const { return rank_; }
  Scheduler& scheduler() { return scheduler_; }
  /// The one that runs now; null: none, an event happens.
  static Strand* running();
  /// From which its threads' turns are drawn.
  void set_thread_seed(uint64_t seed) { thread_seed_ = seed; }

  // --- From inside the strand.
  /// Of the rank; made when first asked for.
  Threads& threads();
  Threads* threads_if_any() { return threads_.get(); }
  uint64_t now_ns() const { return now_ns_; }
  /// The rank has worked for so long. A slow rank (see set_slowness) works longer.
  void charge_ns(uint64_t ns) {
    now_ns_ += ns * slowness_;
    busy_ns_ += ns * slowness_;
  }
  /// Time of a core that the rank has used: all that was charged, and interrupts.
  uint64_t busy_ns() const { return busy_ns_ + interrupted_ns_; }
  /// The part of it that interrupts have taken.
  uint64_t interrupted_ns() const { return interrupted_ns_; }
  /// Runs everything that is due before this strand's own time.
  void catch_up();
  /// Sleeps until `wake` or until `deadline_ns`. `why` (static) is for the report of a deadlock. May return early.
  void block(uint64_t deadline_ns, const char* why);
  /// Never returns: the rank has ended (it aborted, or was killed). What it owns stays in place.
  [[noreturn]] void stop();

  // --- From outside.
  /// Ends `block` at `time_ns` (or now); nothing when the strand is not blocked.
  void wake(uint64_t time_ns);
  /// As `wake`, but a strand that runs does not block next time: a descriptor that stays readable until `drain`.
  void notify(uint64_t time_ns = 0) {
    notified_ = true;
    wake(time_ns);
  }
  void drain() { notified_ = false; }
  /// An interrupt takes the rank's core for so long, just now: it goes on later.
  void interrupt(uint64_t ns) { owed_ns_ += ns * slowness_; }
  /// The rank dies: it never runs again.
  void kill() { stopped_ = true; }
  void set_slowness(uint64_t factor) { slowness_ = factor; }
  bool finished() const { return fiber_.finished(); }
  bool stopped() const { return stopped_; }
  const char* blocked_in() const { return blocked_in_; }
  uint64_t blocked_since_ns() const { return now_ns_; }

  void on_event(EventKind kind, uint64_t datum) override;

 private:
  friend class Threads;
  void schedule_resume(uint64_t time_ns);
  void switch_out();
  // Of Threads: for all of them.
  void suspend() { fiber_.suspend(); }
  void block_all(uint64_t deadline_ns, const char* why);
  bool take_notice() { return std::exchange(notified_, false); }

  Scheduler& scheduler_;
  uint32_t rank_;
  Body body_;
  const OnSwitch& on_switch_;
  uint64_t now_ns_ = 0;
  uint64_t busy_ns_ = 0;
  uint64_t owed_ns_ = 0, interrupted_ns_ = 0;  ///< time of interrupts: not passed yet, and passed
  uint64_t slowness_ = 1;
  uint64_t turn_ = 0;                  ///< a resume event of an earlier turn is stale
  uint64_t resume_at_ns_ = kNever_ns;  ///< of this turn's earliest resume event
  bool stopped_ = false;
  bool notified_ = false;
  const char* blocked_in_ = nullptr;  ///< null: not blocked
  uint64_t thread_seed_ = 1;
  std::unique_ptr<Threads> threads_;  ///< null: it has started none
  Fiber fiber_;
};

}  // namespace tern::sim
