// The terminal's side of mpiexec -gdb: one prompt for the gdb of every rank.
//
//   COMMAND          what gdb knows, to the chosen ranks (at first all)
//   @0,2-3 COMMAND   to these; @0,2-3 alone chooses them, @all all
//   COMMAND &        does not wait until the ranks stop again
//   Ctrl-C           stops the ranks that run
//   quit             ends
//
// What several ranks say alike is said once, with their numbers; numbers of processes and threads may differ. The
// program's own output comes by mpiexec, as without a debugger. Thread rule: one thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tern::debug {

/// `listener`: where the ranks' helpers connect; `job`: the mpiexec that starts them. Returns its exit code.
int run_front(int listener, int ranks, pid_t job);

/// "0,2-3" or "all". False: it is no such list, or names a rank that is not there.
bool parse_ranks(const std::string& text, int ranks, std::vector<int>& chosen);
/// Texts by rank, folded: "[0-2] Breakpoint 1 ...", a line each.
std::string folded(const std::vector<std::string>& texts);

}  // namespace tern::debug
