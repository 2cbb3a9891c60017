#include "sim/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "base/assert.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace tern::sim {
namespace {

// Less free stack than this at a suspend counts as an overflow: a signal handler, or a deep call, would have needed it.
constexpr size_t kLowWaterBytes = 4096;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

size_t mapping_limit() {
  size_t limit = 65530;  // Linux's default
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return limit;
}

bool guarded(size_t stacks) { return 2 * stacks <= mapping_limit() / 2; }

}  // namespace

size_t StackArena::mappings_left(size_t stacks) {
  constexpr size_t kOrdinary = 2000;  // of libraries and large allocations
  const size_t taken = (guarded(stacks) ? 2 * stacks : 1) + kOrdinary, limit = mapping_limit();
  return limit - std::min(limit / 2, taken);
}

StackArena::StackArena(size_t count, size_t stack_bytes) : count_(count) {
  size_t page = size_t(sysconf(_SC_PAGESIZE));
  guard_bytes_ = guarded(count) ? page : 0;
  stack_bytes_ = round_up(stack_bytes, page) + guard_bytes_;
  void* memory = mmap(nullptr, count_ * stack_bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  TERN_ASSERT(memory != MAP_FAILED);
  base_ = static_cast<std::byte*>(memory);
  // A huge page under each stack would cost 2 MiB a rank.
  madvise(memory, count_ * stack_bytes_, MADV_NOHUGEPAGE);
  for (size_t i = 0; guard_bytes_ != 0 && i < count_; ++i) {
    TERN_ASSERT(mprotect(base_ + i * stack_bytes_, guard_bytes_, PROT_NONE) == 0);
  }
}

StackArena::~StackArena() {
  if (abandoned_) return;
#if defined(__SANITIZE_ADDRESS__)
  for (size_t i = 0; i < count_; ++i) __asan_unpoison_memory_region(bottom(i), usable_bytes());
#endif
  munmap(base_, count_ * stack_bytes_);
}

std::byte* StackArena::bottom(size_t index) const { return base_ + index * stack_bytes_ + guard_bytes_; }

void StackArena::abandon() {
  if (abandoned_) return;
  abandoned_ = true;
#if defined(__SANITIZE_ADDRESS__)
  for (size_t i = 0; i < count_; ++i) __lsan_register_root_region(bottom(i), usable_bytes());
#endif
}

#ifdef TERN_OWN_SWITCH
// As swapcontext, without its two system calls for the signal mask, which all fibers share: they would be a third of a
// simulation's time. What a called function must keep (System V ABI for x86-64, 3.2.1), the modes of floating-point
// arithmetic included, is pushed on the one stack and popped from the other.
extern "C" void tern_switch_stack(void** from, void* to);
asm(R"(
.pushsection .text
.globl tern_switch_stack
.hidden tern_switch_stack
.type tern_switch_stack, @function
tern_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tern_switch_stack, . - tern_switch_stack
# Where a new fiber begins: r12 and r13 as its first frame has them. No return address: a backtrace ends here.
.globl tern_begin_fiber
.hidden tern_begin_fiber
.type tern_begin_fiber, @function
tern_begin_fiber:
  .cfi_startproc
  .cfi_undefined rip
  movq %r12, %rdi
  callq *%r13
  ud2
  .cfi_endproc
.size tern_begin_fiber, . - tern_begin_fiber
.popsection
)");
extern "C" void tern_begin_fiber();

Fiber::Fiber(std::byte* stack, size_t bytes, Entry entry, void* argument)
    : stack_(stack), bytes_(bytes), entry_(entry), argument_(argument) {
  struct Frame {
    uint32_t mxcsr, control;
    uint64_t r15, r14;
    void (*r13)(Fiber*);
    Fiber* r12;
    uint64_t rbx, rbp;
    void (*begin)();
  };
  // The stack pointer is a multiple of 16 where tern_begin_fiber begins.
  auto* frame = reinterpret_cast<Frame*>(stack + bytes - 16 - sizeof(Frame));
  uint32_t mxcsr = 0;
  uint16_t control = 0;
  asm("stmxcsr %0" : "=m"(mxcsr));
  asm("fnstcw %0" : "=m"(control));
  *frame = {mxcsr, control, 0, 0, &Fiber::start, this, 0, 0, &tern_begin_fiber};
  self_ = frame;
}

void Fiber::start(Fiber* fiber) { fiber->run(); }
#else
Fiber::Fiber(std::byte* stack, size_t bytes, Entry entry, void* argument)
    : stack_(stack), bytes_(bytes), entry_(entry), argument_(argument) {
  TERN_ASSERT(getcontext(&self_) == 0);
  self_.uc_stack.ss_sp = stack;
  self_.uc_stack.ss_size = bytes;
  self_.uc_link = nullptr;
  auto address = reinterpret_cast<uintptr_t>(this);
  makecontext(&self_, reinterpret_cast<void (*)()>(&Fiber::start), 2, unsigned(address >> 32), unsigned(address));
#if defined(__SANITIZE_THREAD__)
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
}

// makecontext passes ints only: the pointer comes in two halves.
void Fiber::start(unsigned high, unsigned low) {
  auto* fiber = reinterpret_cast<Fiber*>((uintptr_t(high) << 32) | low);
  fiber->run();
}
#endif

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(tsan_fiber_);
#endif
}

void Fiber::run() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &caller_stack_, &caller_stack_bytes_);
#endif
  entry_(argument_);
  finished_ = true;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(nullptr, caller_stack_, caller_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_caller_, 0);
#endif
#ifdef TERN_OWN_SWITCH
  tern_switch_stack(&self_, caller_);
#else
  setcontext(&caller_);
#endif
  __builtin_unreachable();
}

void Fiber::exchange_exception_state() {
  ExceptionState other;
  auto* globals = __cxxabiv1::__cxa_get_globals();
  std::memcpy(&other, static_cast<void*>(globals), sizeof other);
  std::memcpy(static_cast<void*>(globals), &exceptions_, sizeof other);
  exceptions_ = other;
}

void Fiber::resume() {
  TERN_ASSERT(!finished_);
  exchange_exception_state();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&caller_fake_stack_, stack_, bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  tsan_caller_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
#ifdef TERN_OWN_SWITCH
  tern_switch_stack(&caller_, self_);
#else
  TERN_ASSERT(swapcontext(&caller_, &self_) == 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(caller_fake_stack_, nullptr, nullptr);
#endif
  exchange_exception_state();
}

void Fiber::suspend() {
  std::byte here{};
  TERN_ASSERT(&here > stack_ + kLowWaterBytes || &here < stack_);  // outside: the sanitizer's fake stack
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_caller_, 0);
#endif
#ifdef TERN_OWN_SWITCH
  tern_switch_stack(&self_, caller_);
#else
  TERN_ASSERT(swapcontext(&self_, &caller_) == 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

}  // namespace tern::sim
