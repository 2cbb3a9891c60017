// mpiexec as an agent: started by another mpiexec on this host (agents.h), it starts ranks, passes on what they say and
// are told, and decides nothing. When the channel closes it kills everything and ends.
#pragma once

namespace tern::mpiexec {

/// Becomes the agent; returns its exit code. `argv` of main.
int run_agent(char** argv);

}  // namespace tern::mpiexec
