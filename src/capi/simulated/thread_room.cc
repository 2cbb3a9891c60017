// Room for the thread-local variables of simulated programs, directly below the thread pointer: the executable links
// this file last (program_template.h). As C would have it, since the wrappers of C++ hide where a variable is.
#include <cstddef>

#include "capi/simulated/program_template.h"

extern "C" {
__attribute__((aligned(64))) __thread std::byte tern_thread_room[tern::sim::ProgramTemplate::kExchangeRoom];
}
