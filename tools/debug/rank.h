// The rank's side of mpiexec -gdb. Thread rule: a process of its own each.
#pragma once

namespace tern::debug {

/// Becomes gdb over `words`, a program and its arguments, which obeys the socket of that (abstract) name.
int become_gdb(const char* socket_name, char** words);
/// Becomes the program, with the standard descriptors that gdb's helper had: words[0..2] name them, the program
/// follows.
int become_program(char** words);

}  // namespace tern::debug
