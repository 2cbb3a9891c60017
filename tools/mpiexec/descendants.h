// Processes that descend from this one, also in other process groups and sessions, or (with PR_SET_CHILD_SUBREAPER set
// here) without living parents.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

namespace tern::mpiexec {

/// All of them at this moment, parents before children. From /proc.
std::vector<pid_t> descendants();

/// The kernel is ending it: it has no connections left, or soon will not, and is not waited for yet.
bool is_ending(pid_t pid);

void signal_descendants(int signal);

/// Kills all descendants until none is left, at most for `timeout_ms`. `on_end` is told about each child that has been
/// waited for. Returns those that are still there: the kernel does not end a process inside of some system calls.
std::vector<pid_t> end_descendants(int timeout_ms, const std::function<void(pid_t, int status)>& on_end);

}  // namespace tern::mpiexec
