// The signals by which a rank is asked what it waits for: mpiexec's own question, a real-time signal that this rank has
// told it, and SIGUSR1 for users, if TERN_HANG_REPORT is set. Thread rule: under the rank's lock.
#pragma once

#include "capi/world.h"

namespace tern::capi {

/// From now on the rank answers. The world is the operating-system process's own, and its Process has started.
/// TERN_HANG_REPORT=0: it does not.
void begin_to_answer(World& world);
/// Before this rank aborts the job because the ranks call different collectives: mpiexec then asks the others.
void tell_of_difference();
/// Before this rank looks for the place of an error that ends it: mpiexec awaits the text.
void tell_of_failure();
/// Before the Process ends: its launcher's connection is closed.
void end_answers();

}  // namespace tern::capi
