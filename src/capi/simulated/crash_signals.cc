#include "capi/simulated/crash_signals.h"

#include <sys/ucontext.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/system_names.h"
#include "capi/simulated/rank_process.h"

namespace tern::sim {
namespace {

// A signal handler gets no argument of its owner.
const std::vector<std::unique_ptr<ProgramCopies>>* programs = nullptr;

const void* address_of(const void* context) {
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#else
  return nullptr;
#endif
}

// In the program, or in abort(), which it has called.
bool is_program(int signal, const void* address) {
  if (signal == SIGABRT) return true;
  for (const auto& copies : *programs) {
    const std::byte* block = nullptr;
    if (copies->find(address, block)) return true;
  }
  return false;
}

void on_signal(int signal, siginfo_t*, void* context) {
  RankProcess* const process = RankProcess::current();
  if (process && is_program(signal, address_of(context))) {
    sigset_t self;
    sigemptyset(&self);
    sigaddset(&self, signal);
    sigprocmask(SIG_UNBLOCK, &self, nullptr);
    process->end_now({0, signal});
  }
  // In the C library or in MPI: there may be locks. Only what a signal handler may do.
  char text[160];
  const int bytes = process ? std::snprintf(text, sizeof text,
                                            "[tern rank %u] signal %d (SIG%s) in a library function that the program "
                                            "called, perhaps with a bad address\n",
                                            process->rank(), signal, signal_name(signal))
                            : std::snprintf(text, sizeof text, "[tern] signal %d in the simulator\n", signal);
  [[maybe_unused]] const ssize_t written = write(2, text, size_t(bytes));
  if (!process) {
    ::signal(signal, SIG_DFL);
    raise(signal);
  }
  _exit(128 + signal);
}

}  // namespace

CrashSignals::CrashSignals(const std::vector<std::unique_ptr<ProgramCopies>>& copies) {
  programs = &copies;
  // An overflow of a rank's stack leaves no room there.
  constexpr size_t kStackBytes = 64 << 10;
  stack_ = std::make_unique<char[]>(kStackBytes);
  const stack_t stack{stack_.get(), 0, kStackBytes};
  sigaltstack(&stack, &stack_before_);
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

CrashSignals::~CrashSignals() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  sigaltstack(&stack_before_, nullptr);
  programs = nullptr;
}

}  // namespace tern::sim
