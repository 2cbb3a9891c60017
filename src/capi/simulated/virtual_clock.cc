#include "capi/simulated/virtual_clock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include "base/clock.h"

namespace tern::sim {
namespace {

// clock_gettime has no argument of ours.
const Strand* running = nullptr;
const Scheduler* simulated = nullptr;

}  // namespace

void set_virtual_clock(const Scheduler* scheduler, const Strand* strand) {
  simulated = scheduler;
  running = strand;
}

}  // namespace tern::sim

/// In the place of the C library's, for all that is linked into the executable.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  using namespace tern::sim;
  if (clock != CLOCK_MONOTONIC || !simulated) return int(syscall(SYS_clock_gettime, clock, time));
  const uint64_t now_ns = running ? running->now_ns() : simulated->now_ns();
  *time = {time_t(now_ns / tern::kSecond_ns), long(now_ns % tern::kSecond_ns)};
  return 0;
}
