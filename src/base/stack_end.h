// Where the stack of a thread ends. Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern {

/// The first address behind the calling thread's stack; 0: unknown. The first question of a thread costs some 50 us.
uintptr_t stack_end();

/// As bytes_behind_stack, of a buffer that begins above the caller's frame.
size_t bytes_behind_stack_above(uintptr_t begin, size_t bytes);
/// How many of `bytes` at `buffer` lie behind the end of the calling thread's stack, in which they begin; 0: they begin
/// elsewhere, or all is well.
inline size_t bytes_behind_stack(const void* buffer, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(buffer);
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return begin < here ? 0 : bytes_behind_stack_above(begin, bytes);
}

}  // namespace tern
