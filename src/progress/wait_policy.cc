#include "progress/wait_policy.h"
#include "base/assert.h"

#include <algorithm>

namespace tern {

WaitPolicy::Setup WaitPolicy::Setup::of(const Tunables& tunables, bool oversubscribed, int ranks, int cores) {
  Setup setup;
  setup.oversubscribed = oversubscribed;
  setup.ranks = ranks;
  setup.cores = cores;
  setup.spin_ns = uint64_t(tunables.spin_us) * 1000;
  setup.yields = uint64_t(tunables.yield_rounds);
  return setup;
}

WaitPolicy::WaitPolicy(const Setup& setup)
    : setup_(setup),
      patience_ns_(limits_.wake_ns),
      spin_(setup_.yields, limits_),
      last_sleeps_(limits_.first_sleeps / 2) {}

WaitPolicy::Step WaitPolicy::on_empty(Wait& wait, bool threads) {
  if (wait.ended_by == EndedBy::launcher) return Step::sleep;
  if (!setup_.oversubscribed) {
    // Between two looks the engine pauses by itself, unless it gives the lock to other threads.
    const bool looks = !threads || setup_.spin_ns == 0 || wait.empty % limits_.polls_per_look == 0;
    return looks ? Step::read_clock : Step::pause;
  }
  if (const uint64_t polls = spin_.polls(); polls != 0) {
    if (wait.empty <= polls) return Step::pause;
    if (wait.empty == polls + 1) spin_.was_empty();
  }
  if (wait.empty > setup_.yields) return Step::sleep;
  if (sleeps_left_ == 0) return yield();
  TERN_DEBUG_ASSERT(sleeps_left_ <= last_sleeps_);
  --sleeps_left_;
  return Step::sleep;
}

WaitPolicy::Step WaitPolicy::on_clock(Wait& wait, uint64_t now_ns, bool threads) {
  if (wait.since_ns == 0) wait.since_ns = now_ns;
  const bool gap = wait.looked_ns != 0 && now_ns - wait.looked_ns >= limits_.core_taken_ns;
  wait.looked_ns = now_ns;
  TERN_DEBUG_ASSERT(wait.since_ns <= now_ns);
  const bool base = wait.preemptions < 0 && now_ns - wait.since_ns >= limits_.wake_ns;
  if (base || (gap && wait.preemptions >= 0)) return Step::count_preemptions;
  return poll_or_sleep(wait, now_ns, threads);
}

WaitPolicy::Step WaitPolicy::on_preemptions(Wait& wait, int64_t count, bool threads) {
  const uint64_t now_ns = wait.looked_ns;
  if (wait.preemptions >= 0 && count > wait.preemptions) {
    const bool soon = wanted_for_ns_ != 0 && now_ns - wanted_until_ns_ < wanted_for_ns_;
    wanted_for_ns_ = soon ? std::min(2 * wanted_for_ns_, limits_.max_wanted_ns) : limits_.first_wanted_ns;
    wanted_until_ns_ = now_ns + wanted_for_ns_;
  }
  wait.preemptions = count;
  return poll_or_sleep(wait, now_ns, threads);
}

WaitPolicy::Step WaitPolicy::poll_or_sleep(const Wait& wait, uint64_t now_ns, bool threads) const {
  const bool wanted = threads || now_ns < wanted_until_ns_;
  const uint64_t limit_ns = wanted ? std::min(setup_.spin_ns, patience_ns_) : setup_.spin_ns;
  return now_ns - wait.since_ns >= limit_ns ? Step::sleep : Step::pause;
}

WaitPolicy::Step WaitPolicy::on_crowded(Wait& wait, uint64_t now_ns, bool called) const {
  if (called) return Step::yield;
  if (wait.crowded_ns == 0) wait.crowded_ns = now_ns;
  return now_ns - wait.crowded_ns < limits_.switch_ns ? Step::pause : Step::yield;
}

WaitPolicy::Step WaitPolicy::yield() {
  ++yields_since_;
  const bool timed =
      yields_since_ < limits_.soon_yields || sightings_ != 0 || yields_since_ % limits_.timed_yields == 0;
  return timed ? Step::timed_yield : Step::yield;
}

// Ranks that yield or compute are runnable, so more runnable tasks on the machine than the job's ranks that are awake
// mean other programs. (Once a rank has found them it sleeps, and the others must find them nevertheless.) When threads
// yield, every other rank is assumed to have as many of them as this rank.
void WaitPolicy::on_tasks(int runnable, int turning, int asleep) {
  if (runnable <= (setup_.ranks - asleep) * (1 + turning)) {
    sightings_ = 0;
    return;
  }
  if (++sightings_ < limits_.sightings) return;
  const bool soon = yields_since_ <= limits_.soon_yields;
  last_sleeps_ = soon ? std::min(std::max<uint64_t>(2 * last_sleeps_, 1), limits_.max_sleeps) : limits_.first_sleeps;
  yields_since_ = 0;
  sleeps_left_ = last_sleeps_;
}

void WaitPolicy::on_slept(uint64_t lasted_ns) {
  if (patience_ns_ != limits_.wake_ns) {
    const bool paid = waits_of_trial_ >= limits_.patience_pays;
    short_sleeps_wanted_ = paid ? 1 : std::min(2 * short_sleeps_wanted_, limits_.max_short_sleeps);
    short_sleeps_ = 0;
    patience_ns_ = limits_.wake_ns;
  } else if (lasted_ns < 2 * limits_.wake_ns && ++short_sleeps_ >= short_sleeps_wanted_) {
    waits_of_trial_ = 0;
    patience_ns_ = limits_.max_patience_ns;
  }
}

void WaitPolicy::on_wait_over() {
  ++waits_of_trial_;
  if (setup_.oversubscribed) spin_.wait_ended();
}

WaitPolicy::Step WaitPolicy::on_empty_look(bool threads) {
  if (!setup_.oversubscribed && !threads) return Step::pause;
  if (sleeps_left_ == 0) return yield();
  --sleeps_left_;
  return Step::pause;
}

}  // namespace tern
