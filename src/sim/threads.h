// Threads of one simulated rank: fibers that take turns on the rank's core, its strand. One runs, the others stand
// still. It loses its turn when it waits. It may lose it when it asks which thread it is (pthread_self). The next one
// is drawn from the seed. A thread that takes a lock of the library asks which thread it is (rank_lock.h,
// engine_gate.h). So turns can change at every lock, and a seed is an order of the turns. Calls of the C library are
// led here by thread_calls.cc (the library's own) and capi/simulated/rank_threads.h (those of the program).
//
//   strand's fiber   main thread ── waits ──> takes turns: t1, t2, t1 ... ── main is drawn ──> main thread
//   others' fibers                            t1 runs until it waits, or passes its turn
//
// The rank's first thread is the strand's own fiber, and resumes the others while it waits or has passed its turn. If
// all wait, the strand does: for messages, for the earliest deadline, or for ever (a deadlock, which the machine
// reports). Thread rule: the strand's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "sim/fiber.h"

namespace tern::sim {

class Strand;

class Threads {
 public:
  using Entry = std::function<void*()>;
  /// Strand::blocked_in of a rank whose threads wait, none of them for messages.
  static constexpr const char* kWaitForEachOther = "its threads wait for each other";

  Threads(Strand& strand, uint64_t seed);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  /// Of the rank that runs just now; null: no rank runs, or it has never started a thread.
  static Threads* running();

  struct Thread;
  // --- Of the thread that runs.
  /// The new one runs when it is drawn. Lives until it is joined, or has ended and is detached.
  Thread& start(Entry entry);
  /// Null: the rank's first thread.
  const Thread* self() const { return is_first() ? nullptr : current_; }
  /// 0: the first; others in the order of their starts.
  size_t number() const;
  /// Waits until that thread has ended; then it exists no more. False: there is no such thread.
  bool join(const Thread* thread, void*& result);
  bool detach(const Thread* thread);
  /// Ends this thread, not the rank's first one.
  [[noreturn]] void end(void* result);
  /// Waits for the end of all others.
  void await_others();
  /// Others may run before this returns.
  void pass();
  /// A chance to pass the turn: one call in `kOftenIn` does, on average.
  void may_pass() {
    if (threads_.size() > 1 && rng_.chance(1, kOftenIn)) pass();
  }
  /// Until `wake` of that place, or the deadline; false: that came first. The caller looks again: what it waits for may
  /// be gone by then.
  bool wait(const void* place, uint64_t deadline_ns = kNever_ns);
  /// The first threads that wait there, in the order of their coming; returns how many.
  uint32_t wake(const void* place, uint32_t most);
  /// Is told before another thread runs, with the numbers of both.
  void set_on_switch(std::function<void(size_t from, size_t to)> on_switch) { on_switch_ = std::move(on_switch); }
  /// Runs `function` on the stack of the rank's first thread; it does not return (the end of the process).
  [[noreturn]] void leave_by(std::function<void()> function);

  // --- The strand's.
  /// The running thread sleeps until the strand is woken. May return early.
  void sleep(uint64_t deadline_ns, const char* why);
  /// Ends all sleeps at that time.
  void rouse(uint64_t time_ns);
  /// The whole rank stands still until the strand goes on.
  void leave_core();

 private:
  static constexpr uint64_t kOftenIn = 4;       ///< of so many chances to pass a turn one is taken, on average
  static constexpr uint64_t kSwitch_ns = 1500;  ///< a switch of tasks: 1.2 to 2 us on the reference machine

  enum class State : uint8_t { ready, waits, sleeps, ended };
  bool is_first() const { return current_ == threads_[0].get(); }
  Thread* find(const Thread* thread);
  void give_up(State state, uint64_t deadline_ns);
  void take_turns();
  void change(size_t from, size_t to);
  void run(Thread& thread);
  Thread* draw();
  void idle();
  void forget(const Thread* thread);

  Strand& strand_;
  Rng rng_;
  std::vector<std::unique_ptr<Thread>> threads_;  ///< the first is the rank's first
  Thread* current_;
  uint32_t started_ = 0;
  uint64_t waits_ = 0;                ///< how often a thread has begun to wait
  bool core_left_ = false;            ///< why a fiber has suspended: the whole rank stands still
  std::function<void()> last_words_;  ///< of leave_by
  const char* why_ = nullptr;         ///< of the last sleep
  std::function<void(size_t, size_t)> on_switch_;
};

}  // namespace tern::sim
