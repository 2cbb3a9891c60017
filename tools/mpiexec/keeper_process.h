// What the keeper does (keeper.h): takes mpiexec's orders until mpiexec is gone, then ends everything.
#pragma once

namespace tern::mpiexec {

// How long killed processes are waited for. They end within milliseconds, except in system calls that cannot be
// interrupted (a dead file server), where nothing helps.
constexpr int kEndPatience_ms = 2000;

/// Becomes the keeper, with `socket` to mpiexec. In a new process, which never returns from here. `argv` of main: its
/// text is replaced.
[[noreturn]] void run_keeper(int socket, char** argv);

}  // namespace tern::mpiexec
