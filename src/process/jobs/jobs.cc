#include "process/jobs/jobs.h"

namespace tern {
namespace {

// A poll of an open port costs a system call for each of its addresses; connecting jobs is not urgent.
constexpr uint32_t kPortInterval = 64;

}  // namespace

Ports& Jobs::ports() {
  if (!ports_) {
    ports_ = std::make_unique<Ports>(tunables_, clock_);
    progress_.add(*ports_, kPortInterval);
  }
  return *ports_;
}

Error Jobs::spawn(const SpawnRequest& request) {
  // One at a time; other threads' requests wait.
  progress_.wait_until([&] { return !spawning_; }, EndedBy::launcher);
  if (Error error = launcher_.begin_spawn(request)) return error;
  spawning_ = true;
  if (launcher_.spawn_descriptor() >= 0) progress_.watch(launcher_.spawn_descriptor());
  Error error;
  bool over = false;  // once true it is not asked again
  progress_.wait_until([&] { return over = over || launcher_.spawn_is_over(error); }, EndedBy::launcher);
  spawning_ = false;
  progress_.notify();
  return error;
}

}  // namespace tern
