// If a simulated rank dies of an assertion (or a crash), reports which rank, when, and the seed, before the process
// ends.
#pragma once

#include <cstdint>

namespace tern::sim {

class Scheduler;

/// While one exists, SIGABRT and SIGSEGV of this thread's run are annotated. Nestable; restores what was there.
class CrashNote {
 public:
  CrashNote(const Scheduler& scheduler, uint64_t seed);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;
  /// The rank that runs now; -1 none.
  void set_rank(int rank) { rank_ = rank; }

 private:
  friend struct CrashNoteHandler;
  const Scheduler& scheduler_;
  const uint64_t seed_;
  int rank_ = -1;
  CrashNote* outer_;
};

}  // namespace tern::sim
