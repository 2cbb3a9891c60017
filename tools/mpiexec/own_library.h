// A program of the standard ABI runs with any library of it, but only with Tern's under this mpiexec: the ranks take
// the library that lies beside mpiexec, also when the program was built with another one or would find one in the
// system. Thread rule: none.
#pragma once

#include <string>
#include <vector>

namespace tern::mpiexec {

/// Sets LD_LIBRARY_PATH in the ranks' environment where that is needed. A folder with a library of the ABI that
/// LD_LIBRARY_PATH names already is the user's choice and stays.
void choose_own_library(std::vector<std::string>& environment, const std::string& program);

}  // namespace tern::mpiexec
