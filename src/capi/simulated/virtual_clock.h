// The C library's clock, for the library's code in the simulator: virtual while ranks run. So the times in records
// (base/recorder.h) are the simulation's. Thread rule: the simulator's thread.
#pragma once

#include "sim/scheduler.h"

namespace tern::sim {

/// From now on clock_gettime tells the strand's time; without one the scheduler's; without both the real time.
void set_virtual_clock(const Scheduler* scheduler, const Strand* strand);

}  // namespace tern::sim
