// Rounds: what an engine polls, and what it advances. Waits for nothing (engine.h does).
// Thread rule: inside (rank_lock.h).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/counters.h"
#include "base/intrusive_list.h"
#include "fabric/pollable.h"
#include "progress/driving.h"

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

class Rounds {
 public:
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  /// From now on `work` gets its turn in every poll.
  void activate(Advanceable& work) {
    TERN_DEBUG_ASSERT(!work.linked());
    active_.push_back(&work);
  }
  void deactivate(Advanceable& work);
  bool has_work() const { return !active_.empty(); }

  /// Whether this is called from inside of poll (by a path's sink, by an Advanceable). The rank's lock stays held
  /// there.
  bool polling() const { return driving_.polling; }
  const std::vector<Pollable*>& pollables() const { return pollables_; }
  bool arriving() const;                  ///< a message is arriving on some path
  int ranks_asleep() const;               ///< other ranks of this machine, as far as the paths know
  uint64_t pollable_deadline_ns() const;  ///< when the first of them wants to be polled; ~0: none

  /// Arms all, for one who will sleep on them. Not while they are armed. False: somebody has something to do, and
  /// nothing is armed.
  bool arm_all(Driving::Armed whom);
  /// Those that arm_all has armed: not what was added since.
  void disarm_all();
  Counters& counters() { return counters_; }
  Driving& driving() { return driving_; }

 protected:
  /// `counters`: where the rank counts; null: here.
  Rounds(Driving& driving, Counters* counters)
      : own_counters_(counters ? nullptr : std::make_unique<Counters>()),
        driving_(driving),
        counters_(counters ? *counters : *own_counters_) {}
  ~Rounds() = default;

  void append(Pollable& pollable, uint32_t interval);
  /// One round.
  int round() {
    ++round_;
    const Polling polling(driving_);
    int done = 0;
    for (const Slot& slot : slots_) {
      if (slot.hints->dormant) continue;
      if (slot.interval == 1 || round_ % slot.interval == 0) done += slot.pollable->poll();
    }
    if (!active_.empty()) [[unlikely]]
      done += advance_all();
    return done;
  }
  /// Those that a round polls only now and then.
  int poll_seldom();
  /// The next round polls them, too.
  void make_next_whole() { round_ = ~uint32_t{0}; }
  bool any_held() const {
    for (const Slot& slot : slots_) {
      if (slot.hints->holding) [[unlikely]]
        return true;
    }
    return false;
  }

  /// Inside of a poll, also when it ends by an exception.
  class Polling {
   public:
    explicit Polling(Driving& driving) : driving_(driving), outer_(std::exchange(driving.polling, true)) {}
    ~Polling() { driving_.polling = outer_; }
    Polling(const Polling&) = delete;
    Polling& operator=(const Polling&) = delete;

   private:
    Driving& driving_;
    const bool outer_;
  };

 private:
  struct Slot {
    Pollable* pollable;
    const PollHints* hints;
    uint32_t interval;
  };
  /// Turns under way: one after the other, and more of them where a turn polls.
  struct Advancing {
    Advanceable* now = nullptr;   ///< whose turn it is; null: it is active no more
    Advanceable* next = nullptr;  ///< who follows
    Advancing* outer = nullptr;
  };
  int advance_all();
  bool has_turn(const Advanceable& work) const;

  std::unique_ptr<Counters> own_counters_;
  std::vector<Pollable*> pollables_;
  size_t armed_ = 0;  ///< the number of paths, from the first on, that are armed

 protected:
  // What every wait uses: one cache line.
  alignas(64) Driving& driving_;
  Counters& counters_;

 private:
  std::vector<Slot> slots_;
  IntrusiveList<Advanceable> active_;
  Advancing* advancing_list_ = nullptr;
  uint32_t round_ = 0;
};

}  // namespace tern
