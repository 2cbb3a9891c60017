// The keeper's own work (keeper.h): executes mpiexec's orders until mpiexec has ended, then ends everything.
#pragma once

namespace tern::mpiexec {

// Time to wait for killed processes. They end within milliseconds, except in system calls that cannot be interrupted (a
// dead file server), where waiting longer does not help.
constexpr int kEndTimeout_ms = 2000;

/// Becomes the keeper, with `socket` to mpiexec. In a new process, which never returns from here. `argv` of main: its
/// text is replaced.
[[noreturn]] void run_keeper(int socket, char** argv);

}  // namespace tern::mpiexec
