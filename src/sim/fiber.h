// Fibers: the stacks on which simulated ranks run, switched explicitly, all on one thread of the operating system.
// Stacks are part of one range of addresses whose pages are allocated when touched: they cost what their ranks use.
// The address and thread sanitizers are told of every switch; exception state is kept per fiber. Thread rule: a fiber
// is resumed only by the thread that made it.
#pragma once

#include <cstddef>

// Sanitizers replace the functions of ucontext.h, and other processors have no switch of ours.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TERN_OWN_SWITCH 1
#else
#include <ucontext.h>
#endif

namespace tern::sim {

/// One mapping that holds the stacks of all fibers of a run.
class StackArena {
 public:
  /// Room for `count` stacks of `stack_bytes` each (rounded up to pages). There is a guard page below each as long as
  /// that takes at most half of the mappings that the kernel allows a process (vm.max_map_count); beyond that only the
  /// check at each suspend remains.
  StackArena(size_t count, size_t stack_bytes);
  ~StackArena();
  StackArena(const StackArena&) = delete;
  StackArena& operator=(const StackArena&) = delete;

  std::byte* bottom(size_t index) const;
  size_t usable_bytes() const { return stack_bytes_ - guard_bytes_; }
  /// The stacks will never be unmapped: fibers that cannot continue (deadlock, lost rank) stay on them for ever,
  /// and what they own counts as reachable for the leak checker.
  void abandon();

  /// How many mappings the kernel allows besides those of that many stacks and of an ordinary process.
  static size_t mappings_left(size_t stacks);

 private:
  std::byte* base_ = nullptr;
  size_t count_, stack_bytes_, guard_bytes_;
  bool abandoned_ = false;
};

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  Fiber(std::byte* stack, size_t bytes, Entry entry, void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the fiber until it suspends or ends. Not from inside a fiber.
  void resume();
  /// Returns control to the caller of `resume`. Only from inside the fiber.
  void suspend();
  bool finished() const { return finished_; }

 private:
  /// What the C++ runtime keeps per thread about exceptions in flight; layout fixed by the Itanium C++ ABI.
  struct ExceptionState {
    void* caught;
    unsigned uncaught;
  };
#ifdef TERN_OWN_SWITCH
  static void start(Fiber* fiber);
#else
  static void start(unsigned high, unsigned low);
#endif
  [[noreturn]] void run();
  void exchange_exception_state();

  std::byte* stack_;
  size_t bytes_;
  Entry entry_;
  void* argument_;
  bool finished_ = false;
  ExceptionState exceptions_{};
#ifdef TERN_OWN_SWITCH
  void *self_ = nullptr, *caller_ = nullptr;  ///< stack pointers; what else is kept lies on the stacks
#else
  ucontext_t self_{}, caller_{};
#endif
  // For the sanitizers only.
  void* fake_stack_ = nullptr;
  void* caller_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
  void* tsan_fiber_ = nullptr;
  void* tsan_caller_ = nullptr;
};

}  // namespace tern::sim
