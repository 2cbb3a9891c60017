// The call stack of a thread, and the places in the source that its addresses belong to. For signal handlers: nothing
// here allocates from the heap or takes a lock of this library. The walk is the unwinder's of the C++ runtime; names
// and lines come from libbacktrace (part of GCC), which maps memory of its own, or without it from the dynamic linker.
// Thread rule: any thread, signal handlers included.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tern {

/// Addresses of a stack, innermost first.
struct CallStack {
  static constexpr size_t kMaxFrames = 64;  ///< deeper stacks are recursions
  uintptr_t frames[kMaxFrames];
  size_t depth = 0;
};

/// The calling thread's stack. `from`: begin at the frame of this address (a signal handler's: what was interrupted);
/// 0, or an address that is not found: begin at the caller.
CallStack walk_stack(uintptr_t from = 0);

/// One frame, and what its variables are found by.
struct Frame {
  uintptr_t pc = 0;  ///< as in CallStack
  uintptr_t sp = 0;  ///< the stack pointer in it; that of the next frame is its end
  uintptr_t fp = 0;  ///< the frame pointer's register in it
};
/// The frames of the calling thread, innermost first, of which at most `room` are stored. Returns how many.
size_t walk_frames(Frame* frames, size_t room);

/// Names and lines of addresses in the loaded files. The first question reads their debug information (up to some 100
/// ms for large programs), which is kept.
class SymbolTable {
 public:
  /// Writes "function (file.c:12)", or what is known of it, with a terminating null; cut to `room`. `address`: a frame
  /// of a CallStack; `exact`: an instruction itself, not the return address behind a call. True: the line is known.
  bool describe(uintptr_t address, bool exact, char* out, size_t room);

 private:
  std::atomic<void*> symbols_{
      nullptr};  ///< libbacktrace's; null before the first question. Never freed, by its design.
};

/// Where the code of the file (program or shared library) that contains `address` lies.
struct CodeRange {
  uintptr_t begin = 0, end = 0;
  bool contains(uintptr_t address) const { return address >= begin && address < end; }
};
CodeRange code_range_of(uintptr_t address);

}  // namespace tern
