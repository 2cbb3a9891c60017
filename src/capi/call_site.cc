#include "capi/call_site.h"

#include <dlfcn.h>
#include <ucontext.h>

#include <csignal>

#include "mpi.h"

namespace tern::capi {

CallSites::CallSites() : library_(code_range_of(reinterpret_cast<uintptr_t>(&call_sites))) {
  if (void* binding = dlsym(RTLD_DEFAULT, "mpi_init_")) bindings_ = code_range_of(reinterpret_cast<uintptr_t>(binding));
}

size_t CallSites::first_outside(const CallStack& stack) const {
  for (size_t i = stack.depth; i > 0; --i) {
    if (in_library(stack.frames[i - 1])) return i;
  }
  return 0;
}

bool CallSites::describe(const CallStack& stack, bool interrupted, char* out, size_t room) {
  if (room != 0) out[0] = '\0';
  if (const size_t site = first_outside(stack); site != 0) {
    if (site < stack.depth) symbols_.describe(stack.frames[site], false, out, room);
    return true;
  }
  // The innermost frame with a known line: the program's own, not the C library's that it called.
  for (size_t i = 0; i < stack.depth; ++i) {
    if (symbols_.describe(stack.frames[i], interrupted && i == 0, out, room)) return false;
  }
  if (stack.depth != 0) symbols_.describe(stack.frames[0], interrupted, out, room);
  return false;
}

uintptr_t interrupted_address(const void* context) {
#if defined(__x86_64__)
  return uintptr_t(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return uintptr_t(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
  return 0;
#endif
}

uintptr_t interrupted_stack(const void* context) {
#if defined(__x86_64__)
  return uintptr_t(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return uintptr_t(static_cast<const ucontext_t*>(context)->uc_mcontext.sp);
#else
  return 0;
#endif
}

bool is_default(int signal) {
  struct sigaction now;
  return sigaction(signal, nullptr, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
}

// Never destroyed: signals come at any time.
CallSites& call_sites() {
  static auto* const sites = new CallSites;
  return *sites;
}

}  // namespace tern::capi
