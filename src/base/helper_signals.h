// The signals that a thread of the library's own takes: those of its own faults. All others are left to the
// application's threads. Thread rule: any thread.
#pragma once

#include <csignal>
#include <initializer_list>

namespace tern {

/// While it lives, threads that the caller starts inherit a mask that leaves open only what a fault raises in the
/// thread that makes it. With those blocked, the kernel would kill the process without a word (capi/crash_report.h).
class HelperSignals {
 public:
  HelperSignals() {
    sigset_t others;
    sigfillset(&others);
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&others, signal);
    pthread_sigmask(SIG_SETMASK, &others, &before_);
  }
  ~HelperSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HelperSignals(const HelperSignals&) = delete;
  HelperSignals& operator=(const HelperSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace tern
