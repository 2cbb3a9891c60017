// mpiexec -gdb: every rank under gdb, all of them at one prompt (tools/debug).
#pragma once

#include "plan.h"

namespace tern::mpiexec {

/// Makes two processes of mpiexec: the one that returns starts the ranks, whose commands in `plan` are gdb over the
/// program now; the other one becomes the terminal's side. It does not return, but for an error: false, said already.
bool begin_debugging(Plan& plan);

}  // namespace tern::mpiexec
