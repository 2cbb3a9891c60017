// Programs that mpiexec becomes for some of its options.
#pragma once

#include <string>

namespace tern::mpiexec {

/// Where it is: installed as PREFIX/bin/mpiexec and PREFIX/libexec/tern/NAME.
std::string helper_program(const char* name);
/// mpiexec --top: becomes that program, with the words behind the option. Returns an exit code when it cannot.
int become_top(char** argv);

}  // namespace tern::mpiexec
