#include "capi/checked_threads.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/program_threads.h"
#include "capi/world.h"
#include "check/instruments.h"

namespace tern::capi {

CheckedThreads::Inside* CheckedThreads::find(std::thread::id thread) const {
  const auto found =
      std::find_if(inside_.begin(), inside_.end(), [&](const Inside& inside) { return inside.thread == thread; });
  return found == inside_.end() ? nullptr : &*found;
}

void CheckedThreads::enter(const char* call, bool any_time) {
  const std::thread::id self = std::this_thread::get_id();
  const char* other = nullptr;
  {
    const std::lock_guard guard(mutex_);
    if (Inside* mine = find(self)) {
      ++mine->depth;
      return;
    }
    for (const Inside& inside : inside_) {
      if (!inside.any_time) other = inside.call;
    }
    inside_.push_back({self, call, 1, any_time});
  }
  if (any_time) return;
  if (other && world_.models.thread_level < MPI_THREAD_MULTIPLE) {
    world_.abort_job(MPI_ERR_OTHER, fmt::format("TERN_CHECK: two threads are in MPI at the same time, which needs "
                                                "MPI_THREAD_MULTIPLE: one is in {}, one calls {}",
                                                other, findings_.place()));
  }
  if (world_.models.thread_level > MPI_THREAD_FUNNELED || told_ || self == world_.models.main_thread ||
      world_.models.main_thread == std::thread::id())
    return;
  told_ = true;
  findings_.report(
      fmt::format("{} is called by another thread than the one that called MPI_Init, which needs "
                  "MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE. Ask for it with MPI_Init_thread.",
                  findings_.place()));
}

bool CheckedThreads::leave() {
  const std::lock_guard guard(mutex_);
  Inside* mine = find(std::this_thread::get_id());
  if (!mine || --mine->depth != 0) return false;
  inside_.erase(inside_.begin() + (mine - inside_.data()));
  return true;
}

const char* CheckedThreads::call() const {
  const std::lock_guard guard(mutex_);
  const Inside* mine = find(std::this_thread::get_id());
  return mine ? mine->call : nullptr;
}

void CheckedThreads::check_finalize() {
  const std::thread::id self = std::this_thread::get_id();
  const char* other = nullptr;
  {
    const std::lock_guard guard(mutex_);
    for (const Inside& inside : inside_) {
      if (inside.thread != self && !inside.any_time) other = inside.call;
    }
  }
  if (other) {
    world_.abort_job(MPI_ERR_OTHER,
                     fmt::format("TERN_CHECK: {} while another thread is in {}. Let the threads wait for "
                                 "each other before (MPI 5.0, 11.6.2).",
                                 findings_.place(), other));
  }
  if (self != world_.models.main_thread && world_.models.main_thread != std::thread::id())
    findings_.report(fmt::format("{} is called by another thread than MPI_Init (MPI 5.0, 11.6.2)", findings_.place()));
}

size_t CheckedThreads::count() {
  const size_t all = program_threads(), others = check::threads_of_instruments();
  return all > others ? all - others : 1;
}

void CheckedThreads::check_count() {
  const size_t threads = world_.models.thread_level == MPI_THREAD_SINGLE ? count() : 1;
  if (threads == 1) return;
  findings_.report(
      fmt::format("the program has {} threads at MPI_Finalize, but MPI was initialised for one only "
                  "(MPI_THREAD_SINGLE). Call MPI_Init_thread with MPI_THREAD_FUNNELED if only the main thread calls "
                  "MPI (MPI 5.0, 11.2.1).",
                  threads));
}

}  // namespace tern::capi
