// The explorer: runs a small program of two to four threads in every interleaving, and with every old value that its
// loads may return (memory.h), up to stated bounds. The threads are fibers; the code under test is the library's own,
// compiled with -fsanitize=thread and linked with a run-time of ours (runtime.cc), which asks the explorer at each
// atomic operation on shared memory.
//
//   const Outcome outcome = explore(bounds, [](Execution& execution) {
//     auto state = std::make_shared<State>();               // made anew for each execution
//     execution.share(&state->words, sizeof state->words);  // only accesses to this are looked at
//     execution.thread([state] { ... });
//     execution.thread([state] { wait_for([&] { return ...; }); require(..., "what must be"); });
//     execution.finally([state] { require(..., "at the end"); });
//   });
//   EXPECT_EQ(outcome.failure, "");
//
// An execution fails by `require`, by a data race on shared memory, by an assertion of the library, and when every
// thread waits for ever (a lost wake-up). Exhaustive means: all executions with at most so many preemptions (a thread
// is left although it could go on) and so many loads of old values; who waits has waited with all old values become
// visible. Source of the bound: Musuvathi and Qadeer 2007 (most bugs need two preemptions).
//
// To show that a test would notice, `Bounds::weaken` makes one place of the code relaxed that has a stronger order, and
// `Bounds::no_barrier` takes membarrier away.
// Thread rule: one exploration at a time, on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tern::explore {

/// A place in the code with an atomic operation whose order is stronger than relaxed.
struct Place {
  uintptr_t address = 0;
  std::string what;  ///< operation and order
  uint64_t count = 0;
};

struct Bounds {
  uint32_t preemptions = 2;
  uint32_t old_values = 2;          ///< loads of an execution that return them
  uint64_t executions = 3'000'000;  ///< more have not been exhausted
  uint64_t steps = 20'000;          ///< of an execution; more are cut off, and counted
  bool no_barrier = false;
  uintptr_t weaken = 0;  ///< a Place's address; 0: none
  bool trace = false;    ///< print the steps of the execution that failed
};

struct Outcome {
  uint64_t executions = 0, steps = 0, cut_off = 0;
  bool exhausted = false;
  std::string failure;        ///< of the first execution that failed; empty: none
  std::vector<Place> places;  ///< those that were seen
  std::string text() const;
};

class Execution {
 public:
  virtual void share(const void* address, size_t bytes) = 0;
  virtual void thread(std::function<void()> body) = 0;
  /// Called when all threads have ended.
  virtual void finally(std::function<void()> check) = 0;

 protected:
  ~Execution() = default;
};

/// "file:line" of an address in the code, where addr2line is there; else the address.
std::string line_of(uintptr_t address);

Outcome explore(const Bounds& bounds, const std::function<void(Execution&)>& program);

// --- From inside a thread of an execution.
/// The execution has failed unless `condition`.
void require(bool condition, const char* what);
/// Asks again whenever another thread has stored something. May have side effects.
void wait_for(const std::function<bool()>& condition);
/// What another thread waits for may have changed, though nothing was stored in shared memory (a descriptor).
void note_change();

}  // namespace tern::explore
