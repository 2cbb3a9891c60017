// Programs that mpiexec becomes for some of its options.
#pragma once

#include <string>

#include "plan.h"

namespace tern::mpiexec {

/// Where it is: installed as PREFIX/bin/mpiexec and PREFIX/libexec/tern/NAME.
std::string helper_program(const char* name);
/// The program of a command: a name without a slash is looked for as a shell does, and stays as it is where there is
/// none.
std::string found_program(const App& app);
/// mpiexec --top: becomes that program, with the words behind the option. Returns an exit code when it cannot.
int become_top(char** argv);

}  // namespace tern::mpiexec
