// mpiexec --simulate: hands the job over to the simulator (tools/simulate), a program of its own beside this one.
#pragma once

#include "plan.h"

namespace tern::mpiexec {

/// The exit code of mpiexec.
int run_simulated(Plan& plan, char** argv);

}  // namespace tern::mpiexec
