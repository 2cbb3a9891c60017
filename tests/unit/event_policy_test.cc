// The event thread's policy (progress/event_policy.h), as a table; and its mechanism (progress/event_handler.h) with
// all sequences of events up to a bound: whatever happens in whatever order, what is pending while the application is
// away has somebody who looks after it.
#include "progress/event_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "progress/event_handler.h"

namespace tern::test {
namespace {

using Step = EventPolicy::Step;
using Action = EventPolicy::Action;

constexpr EventLimits kLimits;

TEST(EventPolicy, WhoLeavesForTheFirstTimeIsGivenAGrace) {
  EventPolicy policy(kLimits);
  EXPECT_EQ(policy.on_leave(Need::now), (Action{Step::watch_timer, kLimits.first_grace_ns}));
  EXPECT_EQ(policy.on_leave(Need::later), (Action{Step::watch_later, kLimits.later_ns}));
  EXPECT_EQ(policy.on_leave(Need::nothing), Action{});
}

TEST(EventPolicy, OneThatHandlesAllArrivalsArmsAtOnceAndStays) {
  EventPolicy policy(kLimits, Arrivals::all);
  EXPECT_EQ(policy.on_leave(Need::now), Action{Step::arm});
  EXPECT_EQ(policy.on_not_armed(Need::now), (Action{Step::watch_timer, 1}));
  uint64_t now_ns = 1'000'000'000;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(policy.on_leave_armed(++now_ns), Action{});  // however soon it is back
  EXPECT_EQ(policy.on_wake(WakeSource::timer, true, false, false), Action{Step::come_in});
}

/// A policy whose application stayed away once.
EventPolicy stayed_away() {
  EventPolicy policy(kLimits);
  EXPECT_EQ(policy.on_wake(WakeSource::timer, true, false, true), Action{Step::come_in});
  EXPECT_EQ(policy.on_inside(WakeSource::timer, Need::now), Action{Step::poll});
  return policy;
}

TEST(EventPolicy, WhoStayedAwayIsExpectedToAgain) {
  EventPolicy policy = stayed_away();
  EXPECT_EQ(policy.on_leave(Need::now), Action{Step::arm});
  EXPECT_EQ(policy.on_leave(Need::later), (Action{Step::watch_later, kLimits.later_ns}));
  EXPECT_EQ(policy.on_not_armed(Need::now), (Action{Step::watch_timer, kLimits.first_grace_ns}));
}

TEST(EventPolicy, UntilItWasBackSoonTwice) {
  EventPolicy policy = stayed_away();
  uint64_t now_ns = 1'000'000'000;
  const auto away_for = [&](uint64_t ns) {
    policy.on_tried_to_arm(now_ns);
    now_ns += ns;
    policy.on_return(now_ns);
  };
  for (int i = 0; i < 5; ++i) {
    away_for(kLimits.soon_ns - 1);
    EXPECT_TRUE(policy.application_stays_away());
    away_for(kLimits.soon_ns);
  }
  away_for(1);
  policy.on_tried_to_arm(now_ns);
  policy.on_used();  // the thread had something to do
  policy.on_return(now_ns + 1);
  EXPECT_TRUE(policy.application_stays_away());
  away_for(1);
  EXPECT_FALSE(policy.application_stays_away());
}

TEST(EventPolicy, ABurstOfCallsDisarms) {
  EventPolicy policy = stayed_away();
  policy.on_tried_to_arm(1000);
  EXPECT_EQ(policy.on_leave_armed(2000), Action{});
  EXPECT_EQ(policy.on_leave_armed(3000), Action{Step::disarm});
  EXPECT_FALSE(policy.application_stays_away());
}

// By turns twice as long, up to the longest, and short.
TEST(EventPolicy, TicksThatFindTheApplicationBackGrowRare) {
  EventPolicy policy(kLimits);
  uint64_t expected_ns = kLimits.first_grace_ns;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(policy.on_wake(WakeSource::timer, true, false, false), (Action{Step::set_timer, kLimits.first_grace_ns}));
    EXPECT_EQ(policy.on_wake(WakeSource::timer, true, false, false), (Action{Step::set_timer, expected_ns}));
    expected_ns = std::min(2 * expected_ns, kLimits.max_grace_ns);
  }
}

TEST(EventPolicy, OnlyWhatIsWatchedWakes) {
  for (const WakeSource watch :
       {WakeSource::nobody, WakeSource::later, WakeSource::timer, WakeSource::paths, WakeSource::always}) {
    for (const bool tick : {false, true}) {
      for (const bool ready : {false, true}) {
        EventPolicy policy(kLimits);
        const bool sleeps = watch != WakeSource::nobody && watch != WakeSource::always;
        const bool comes = watch == WakeSource::paths ? tick || ready : sleeps && tick;
        EXPECT_EQ(policy.on_wake(watch, tick, ready, true).step, comes ? Step::come_in : Step::nothing);
      }
    }
  }
}

TEST(EventPolicy, WhereSomebodyMustPollAlwaysTheThreadDoes) {
  for (EventPolicy policy : {EventPolicy(kLimits), stayed_away()}) {
    EXPECT_EQ(policy.on_leave(Need::always), Action{Step::poll_always});
    EXPECT_EQ(policy.on_inside(WakeSource::timer, Need::always), Action{Step::poll_always});
    EXPECT_EQ(policy.on_settled(Need::always), Action{Step::poll_always});
    EXPECT_EQ(policy.on_turn(Need::always), Action{});
    for (const Need less : {Need::now, Need::later, Need::nothing}) EXPECT_EQ(policy.on_turn(less), Action{Step::poll});
  }
}

TEST(EventPolicy, WhatPollsDoNotMoveIsLookedAtLater) {
  EventPolicy policy = stayed_away();
  for (uint64_t i = 1; i < kLimits.empty_polls; ++i) EXPECT_EQ(policy.on_round(false, false), Action{Step::arm});
  EXPECT_EQ(policy.on_round(true, false), Action{Step::arm});
  for (uint64_t i = 1; i < kLimits.empty_polls; ++i) EXPECT_EQ(policy.on_round(false, false), Action{Step::arm});
  EXPECT_EQ(policy.on_round(false, false), (Action{Step::watch_timer, kLimits.first_grace_ns}));
  EXPECT_EQ(policy.on_round(true, true), Action{}) << "the application waits";
}

TEST(EventPolicy, WhoComesAndGoesAllTheTimeIsNotAskedEachTime) {
  EventPolicy policy(kLimits);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 1; i < kLimits.idle_leaves; ++i) EXPECT_FALSE(policy.on_idle_leave());
    EXPECT_TRUE(policy.on_idle_leave());
  }
  const uint64_t quick_ns = kLimits.idle_leaves * kLimits.quick_leave_ns;
  EXPECT_EQ(policy.on_idle_leaves(1'000'000'000), Action{});
  EXPECT_EQ(policy.on_idle_leaves(1'000'000'000 + quick_ns), Action{});
  EXPECT_EQ(policy.on_idle_leaves(1'000'000'000 + 2 * quick_ns - 1),
            (Action{Step::watch_timer, kLimits.first_grace_ns}));
}

// --- Every sequence of events.

struct HandClock final : Clock {
  uint64_t now_ns() override { return now; }
  uint64_t now = 1'000'000'000;
};

/// A path to which messages come; it can be slept on unless something is here that polls do not move.
struct ModelPath final : Pollable {
  int poll() override { return std::exchange(waiting, 0); }
  bool arm() override {
    if (waiting != 0 || stuck) return false;
    ++armed;
    return true;
  }
  void disarm() override { --armed; }
  uint64_t next_deadline_ns() const override { return deadline_ns; }
  int waiting = 0, armed = 0;
  bool stuck = false;
  uint64_t deadline_ns = ~uint64_t{0};
};

/// What the kernel does, on the test's clock.
struct ModelPort final : EventPort {
  explicit ModelPort(HandClock& test_clock) : clock(test_clock) {}
  void start(EventClient&) override {}
  void stop() override {}
  void set_timer(uint64_t after_ns) override { ends_ns = clock.now + after_ns; }
  void watch_paths(bool on) override { watching = on; }
  void poll_always(bool on) override { polling = on; }
  void barrier() override {}
  bool has_barrier() const override { return true; }
  HandClock& clock;
  uint64_t ends_ns = ~uint64_t{0};
  bool watching = false, polling = false;
};

enum class Event : uint8_t {
  call,         // the application comes and goes
  call_waits,   // it waits inside meanwhile
  needs_now,    // something is pending from now on
  needs_later,  //
  needs_none,   //
  needs_polls,  // all the time
  arrival,      // a message comes
  stuck,        // and something that polls do not move; or that is over
  deadline,     // a path wants a poll in 70 us
  wake,         // the next thing that wakes the thread happens
  last = wake,
};
constexpr const char* kNames[] = {"call",        "call_waits", "needs_now", "needs_later", "needs_none",
                                  "needs_polls", "arrival",    "stuck",     "deadline",    "wake"};

/// One rank with its event thread, on one thread of the test's.
struct Rank {
  Rank(const EventLimits& limits, Arrivals handles)
      : handler(
            engine, port, [this] { return needed; }, limits, handles) {
    engine.add(path);
    lock.set_successor(&handler);
  }
  ~Rank() { lock.set_successor(nullptr); }

  void call(bool waits) {
    lock.enter();
    if (waits && handler.handles_every_arrival()) {
      const Need left = handler.take_over(false);  // it sleeps until it is called
      EXPECT_TRUE(covers(lock.wake_source(), left));
    } else if (waits) {
      handler.stand_aside();
      EXPECT_EQ(path.armed, 0) << "who waits must not share its wake-ups";
    }
    lock.leave();
  }
  /// Whether the thread has anything to wake for; then it does.
  bool wake() {
    if (port.polling) {
      clock.now += 100;
      handler.on_turn();
      return true;
    }
    if (port.watching && path.waiting != 0 && path.armed != 0) {
      port.watching = false;  // once
      clock.now += 5000;
      handler.on_wake(false, true);
      return true;
    }
    if (port.ends_ns == ~uint64_t{0}) return false;
    clock.now = std::max(clock.now, std::exchange(port.ends_ns, ~uint64_t{0}));
    handler.on_wake(true, false);
    return true;
  }
  void happen(Event event) {
    clock.now += 7000;
    switch (event) {
      case Event::call: return call(false);
      case Event::call_waits: return call(true);
      case Event::needs_now:
        needed = Need::now;  // which nothing but a call begins
        return call(false);
      case Event::needs_later: needed = Need::later; return call(false);
      case Event::needs_none: needed = Need::nothing; return call(false);
      case Event::needs_polls:
        lock.enter();
        needed = Need::always;
        handler.poll_always();
        return lock.leave();
      case Event::arrival: ++path.waiting; return;
      case Event::stuck: path.stuck = !path.stuck; return;
      case Event::deadline: path.deadline_ns = clock.now + 70'000; return call(false);
      case Event::wake: wake(); return;
    }
  }
  /// Whether what is pending is looked after: with a message here, the thread takes it within so many wake-ups; and
  /// within what time.
  std::string check() {
    const WakeSource watch = lock.wake_source();
    if (!covers(watch, needed)) return "not covered";
    if (port.polling != (watch == WakeSource::always)) return "the thread takes turns, or not, against the watch";
    if ((watch == WakeSource::timer || watch == WakeSource::later) && port.ends_ns == ~uint64_t{0})
      return "no timer is set";
    if (watch == WakeSource::paths && (path.armed != 1 || !port.watching)) return "the paths are not armed";
    if (watch != WakeSource::paths && path.armed != 0) return "armed for nobody";
    if (watch == WakeSource::paths && path.deadline_ns != ~uint64_t{0} &&
        port.ends_ns > std::max(path.deadline_ns, clock.now + 1))
      return "a deadline is missed";
    return "";
  }
  /// Afterwards the application stays away, and something comes.
  std::string aftermath() {
    if (needed < Need::now) return "";
    path.stuck = false;
    path.deadline_ns = ~uint64_t{0};
    path.waiting = 1;
    for (int i = 0; i < 8; ++i) {
      if (!wake()) return "nothing wakes the thread";
      if (path.waiting == 0) return "";
    }
    return "a message is not taken";
  }

  HandClock clock;
  Driving lock;
  NoWaiting nobody_waits;
  ProgressEngine engine{clock, lock, nobody_waits};
  ModelPath path;
  ModelPort port{clock};
  Need needed = Need::nothing;
  EventHandler handler;
};

std::string name_of(const std::vector<Event>& events) {
  std::string text;
  for (const Event event : events) text += std::string(text.empty() ? "" : ", ") + kNames[size_t(event)];
  return text;
}

/// All sequences of so many events; returns how many.
uint64_t all_sequences(const EventLimits& limits, size_t length, const char* name,
                       Arrivals handles = Arrivals::outside) {
  constexpr size_t kKinds = size_t(Event::last) + 1;
  uint64_t count = 0;
  std::vector<Event> events(length, Event::call);
  while (true) {
    Rank rank(limits, handles);
    std::string failure;
    for (size_t i = 0; i < length && failure.empty(); ++i) {
      rank.happen(events[i]);
      failure = rank.check();
    }
    if (failure.empty()) failure = rank.aftermath();
    EXPECT_EQ(failure, "") << name << ": after " << name_of(events);
    if (!failure.empty()) return count;
    ++count;
    size_t at = 0;
    while (at < length && events[at] == Event::last) events[at++] = Event::call;
    if (at == length) return count;
    events[at] = Event(size_t(events[at]) + 1);
  }
  static_assert(kKinds == std::size(kNames));
}

/// Every limit with every value of its row, the others at their defaults.
std::vector<std::pair<const char*, EventLimits>> all_limits() {
  std::vector<std::pair<const char*, EventLimits>> all{{"own core", {}}, {"shared", EventLimits::shared_cores()}};
#define TERN_LIST(...) {__VA_ARGS__}
#define TERN_ROW(name, own, shared, unit, values, source)               \
  for (const uint64_t value : std::vector<uint64_t> TERN_LIST values) { \
    all.emplace_back(#name, EventLimits());                             \
    all.back().second.name = value;                                     \
  }
  TERN_EVENT_LIMITS(TERN_ROW)
#undef TERN_ROW
#undef TERN_LIST
  return all;
}

TEST(EventHandler, EverySequenceOfSixEvents) { EXPECT_EQ(all_sequences({}, 6, "own core"), 1'000'000u); }
TEST(EventHandler, EverySequenceOfFiveEventsWhereItHandlesAllArrivals) {
  EXPECT_EQ(all_sequences({}, 5, "all arrivals", Arrivals::all), 100'000u);
}
TEST(EventHandler, EverySequenceOfFourEventsWithAllLimits) {
  for (const auto& [name, limits] : all_limits()) EXPECT_EQ(all_sequences(limits, 4, name), 10'000u);
}

}  // namespace
}  // namespace tern::test
