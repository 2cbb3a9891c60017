// Where the program is, seen from the library: for signal handlers and reports. Thread rule: any thread, signal
// handlers included.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/backtrace.h"

namespace tern::capi {

/// The files of this process, and this library's code among them. One per operating-system process, made by the first
/// use, which must not be in a signal handler; null: not made yet.
class CallSites {
 public:
  CallSites();

  bool in_library(uintptr_t address) const { return library_.contains(address) || bindings_.contains(address); }
  /// The number of the first frame behind the library's outermost one: the call of MPI in the program; 0: the library
  /// is not on this stack.
  size_t first_outside(const CallStack& stack) const;
  /// "main (a.c:7)": where the program calls MPI, or when it does not, where it is. True: it is in a call of MPI.
  bool describe(const CallStack& stack, bool interrupted, char* out, size_t room);
  SymbolTable& symbols() { return symbols_; }

 private:
  CodeRange library_, bindings_;  ///< libmpi_abi, and the Fortran bindings' library, if it is loaded
  SymbolTable symbols_;
};

/// The program's.
CallSites& call_sites();

/// The instruction at which a signal came: `context` is the third argument of its handler. 0: unknown on this machine.
uintptr_t interrupted_address(const void* context);
/// Its stack pointer then; 0: unknown.
uintptr_t interrupted_stack(const void* context);
/// Whether neither the program nor a library handles or ignores the signal.
bool is_default(int signal);

}  // namespace tern::capi
