#include "check/instruments.h"

// The sanitizers' functions for code that they have not instrumented (compiler-rt: sanitizer/asan_interface.h,
// sanitizer/tsan_interface.h); null in other programs.
extern "C" {
[[gnu::weak, gnu::visibility("default")]] void* __asan_region_is_poisoned(void* begin, size_t bytes);
[[gnu::weak, gnu::visibility("default")]] void __tsan_read_range(void* begin, unsigned long bytes);
[[gnu::weak, gnu::visibility("default")]] void __tsan_write_range(void* begin, unsigned long bytes);
}

namespace tern::check {
namespace {

using Range = Bytes::Range;

/// Asks valgrind by the instructions that it recognises (valgrind's manual, 3.1 "The Client Request mechanism"); to a
/// processor they are nothing. Returns 0 where there is no valgrind, or another tool of it than memcheck.
uintptr_t ask_memcheck([[maybe_unused]] uint32_t question, [[maybe_unused]] const Range& range) {
  uintptr_t answer = 0;
#ifdef __x86_64__
  constexpr uintptr_t kTool = uintptr_t('M') << 24 | uintptr_t('C') << 16;
  const volatile uintptr_t words[6] = {kTool + question, range.begin, range.end - range.begin, 0, 0, 0};
  asm volatile(
      "rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi\n\t"
      "xchgq %%rbx, %%rbx"
      : "+d"(answer)
      : "a"(&words[0])
      : "cc", "memory");
#endif
  return answer;
}

// Numbers of memcheck's questions (memcheck.h). The answer is the first byte for which it is not so, and an error of
// valgrind's own is printed; or 0.
constexpr uint32_t kIsAddressable = 4, kIsDefined = 5;

/// Structures are sent as bytes, too, and what lies between their members is rarely written.
bool holds_values(const Datatype& type) {
  const Kind* kind = type.basic_kind();
  return kind && type.size() != type.basic_count();
}

}  // namespace

MemoryFault find_memory_fault(const Use& use) {
  const Bytes bytes = Bytes::of(use.buffer, use.count, *use.type);
  if (!bytes.exact) return MemoryFault::none;
  for (const Range& range : bytes.ranges) {
    const size_t length = range.end - range.begin;
    if (__asan_region_is_poisoned && __asan_region_is_poisoned(reinterpret_cast<void*>(range.begin), length))
      return MemoryFault::not_the_programs;
    if (ask_memcheck(kIsAddressable, range) != 0) return MemoryFault::not_the_programs;
    if (!use.writes && holds_values(*use.type) && ask_memcheck(kIsDefined, range) != 0)
      return MemoryFault::never_written;
  }
  return MemoryFault::none;
}

void tell_thread_sanitizer(const Use& use) {
  if (!__tsan_read_range || !__tsan_write_range) return;
  const Bytes bytes = Bytes::of(use.buffer, use.count, *use.type);
  if (!bytes.exact) return;
  for (const Range& range : bytes.ranges) {
    void* const begin = reinterpret_cast<void*>(range.begin);
    if (use.writes) __tsan_write_range(begin, range.end - range.begin);
    else __tsan_read_range(begin, range.end - range.begin);
  }
}

size_t threads_of_instruments() { return __tsan_read_range ? 1 : 0; }

}  // namespace tern::check
