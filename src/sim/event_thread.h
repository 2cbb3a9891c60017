// A rank's event thread in virtual time: the port (progress/event_port.h) of the same handler and policy that run on
// real machines, and the cores on which a node's ranks and threads compete.
//
// A rank computes in `compute`: for that time its application is outside the library. If the thread is woken meanwhile,
// by its timer or by an arrival on a path that it watches, it runs on the rank's own fiber. With a free core the
// application continues in parallel; else it waits while the thread is woken and works:
//
//   application   ──compute──┐     waits      ┌──────> the rest
//   thread                   └─wake─┬─on_wake──┘
//
// A thread that polls all the time (EventPort::poll_always) takes a turn when something comes, if it has a core; else
// at the end of each of the application's slices. Its empty turns cost nothing: it yields its core to what is ready.
//
// With more ranks than cores the ranks that compute share them evenly, recalculated after every slice. A rank inside
// the library gives its core up at once (it yields). Thread rule: the strand's own, except on_event.
#pragma once

#include <cstdint>

#include "progress/driving.h"
#include "progress/engine.h"
#include "progress/event_port.h"
#include "sim/scheduler.h"

namespace tern::sim {

/// The cores of one node. `count` 0: unlimited.
struct NodeCores {
  uint32_t count = 0, ranks = 0;
  uint32_t computing = 0;  ///< ranks, just now

  bool oversubscribed() const { return count != 0 && ranks > count; }
  /// Whether a woken thread finds a core without a rank. Ranks with cores of their own keep them.
  bool has_free() const { return count == 0 || (oversubscribed() ? computing : ranks) < count; }
  /// How long `ns` of computing take together with the others.
  uint64_t stretched(uint64_t ns) const { return count == 0 || computing <= count ? ns : ns * computing / count; }
};

/// One per rank, lives as long as the machine: late events find no thread.
class EventStation final : public EventTarget {
 public:
  EventStation(Strand& strand, NodeCores& cores, uint64_t wake_ns)
      : strand_(strand), cores_(cores), wake_ns_(wake_ns) {}

  /// The application computes for so long, outside the library.
  void compute(uint64_t ns);
  /// The application sleeps inside until the thread calls it: sleeps until the thread has something to do, which it
  /// then does. False: the deadline came first.
  bool serve_sleeper(uint64_t deadline_ns);
  /// The kernel switches to a thread that was asleep.
  void charge_wake() { strand_.charge_ns(wake_ns_); }
  void on_event(EventKind kind, uint64_t generation) override;
  bool oversubscribed() const { return cores_.oversubscribed(); }
  /// Time of a core that went into compute, beside what the strand was charged.
  uint64_t computed_ns() const { return computed_ns_; }

  // --- The port's.
  /// `lock`: the rank's. Null handler: the thread has ended.
  void attach(EventClient* handler, Driving* lock);
  void set_timer(uint64_t after_ns);
  void watch_paths(bool on) { watching_ = on; }
  /// Null: it ends. The engine: whose paths tell the model when something comes.
  void poll_always(ProgressEngine* engine) { polled_ = engine; }

 private:
  void run_thread(bool ready, uint64_t& left_ns);
  bool take_turn(uint64_t& left_ns);
  uint64_t compute_slice(uint64_t left_ns);

  static constexpr uint64_t kSlice_ns = 3'000'000;  ///< of Linux's scheduler on two to four cores: 1.4 to 2.8 ms
  static constexpr uint64_t kTurn_ns = 100;         ///< a turn in which nothing is done

  Strand& strand_;
  NodeCores& cores_;
  const uint64_t wake_ns_;
  EventClient* handler_ = nullptr;
  Driving* lock_ = nullptr;
  ProgressEngine* polled_ = nullptr;  ///< not null: the thread polls it all the time
  uint64_t timer_ = 0;                ///< events of an earlier setting are stale
  bool tick_ = false;                 ///< the timer has ended, and the thread has not run since
  bool watching_ = false;             ///< the next arrival wakes the thread
  bool computing_ = false;
  bool sleeping_ = false;  ///< in serve_sleeper
  uint64_t computed_ns_ = 0;
};

class SimEventThread final : public EventPort {
 public:
  SimEventThread(EventStation& station, Driving& lock, ProgressEngine& engine)
      : station_(station), lock_(lock), engine_(engine) {}
  ~SimEventThread() override { station_.attach(nullptr, nullptr); }
  void start(EventClient& handler) override { station_.attach(&handler, &lock_); }
  void stop() override { station_.attach(nullptr, nullptr); }
  void set_timer(uint64_t after_ns) override { station_.set_timer(after_ns); }
  void watch_paths(bool on) override { station_.watch_paths(on); }
  void poll_always(bool on) override { station_.poll_always(on ? &engine_ : nullptr); }
  void barrier() override {}
  bool has_barrier() const override { return true; }

 private:
  EventStation& station_;
  Driving& lock_;
  ProgressEngine& engine_;
};

}  // namespace tern::sim
