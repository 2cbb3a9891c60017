// Signals by which a process would die, while simulated programs run: the rank whose code caused it ends, and the
// simulation reports it. Where the simulator itself is at fault it ends, saying in which rank's call.
// Thread rule: one at a time, the simulator's thread.
#pragma once

#include <signal.h>

#include <memory>
#include <vector>

#include "capi/simulated/program_copies.h"

namespace tern::sim {

class CrashSignals {
 public:
  /// Until the destructor, which restores what was there.
  explicit CrashSignals(const std::vector<std::unique_ptr<ProgramCopies>>& copies);
  ~CrashSignals();
  CrashSignals(const CrashSignals&) = delete;
  CrashSignals& operator=(const CrashSignals&) = delete;

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  struct sigaction before_[std::size(kSignals)];
  stack_t stack_before_{};
  std::unique_ptr<char[]> stack_;
};

}  // namespace tern::sim
