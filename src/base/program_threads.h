// How many threads the program has. Thread rule: any thread.
#pragma once

#include <cstddef>

namespace tern {

/// Threads of this operating-system process without those that the library and the kernel's io_uring have started,
/// which are known by their names. At least 1, also where the system does not tell.
size_t program_threads();

}  // namespace tern
