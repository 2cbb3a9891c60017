// CheckedThreads: TERN_CHECK's list of the threads that are in MPI, with the call of each, and what is wrong with them:
// two at the same time, or another one than the level of threads allows. Source: MPI 5.0, 11.6.
//
// Thread rule: any thread; `enter` and `leave` find out whether there should be one.
#pragma once

#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "check/findings.h"

namespace tern::capi {

struct World;

class CheckedThreads {
 public:
  CheckedThreads(World& world, const check::Findings& findings) : world_(world), findings_(findings) {}

  /// `any_time`: a function that may be called at any time from any thread.
  void enter(const char* call, bool any_time);
  /// True: the outermost call of this thread is over.
  bool leave();
  /// The outermost call that this thread is in; null: none.
  const char* call() const;

  /// Of the program, without those of its instruments.
  static size_t count();
  /// What would go wrong in MPI_Finalize, which this thread has called.
  void check_finalize();
  /// The program has more threads at its end than it has asked for.
  void check_count();

 private:
  /// A thread that is in MPI, with its nested calls.
  struct Inside {
    std::thread::id thread;
    const char* call;
    int depth;
    bool any_time;
  };
  Inside* find(std::thread::id thread) const;

  World& world_;
  const check::Findings& findings_;
  mutable std::mutex mutex_;
  mutable std::vector<Inside>
      inside_;         ///< guarded by mutex_; at most one for each thread that is in MPI, which are few
  bool told_ = false;  ///< of a call by another thread than the one of MPI_Init
};

}  // namespace tern::capi
