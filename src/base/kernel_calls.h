// The system calls without which no rank can run: containers and services may forbid some (seccomp). Thread rule: any
// thread.
#pragma once

#include "base/error.h"

namespace tern {

/// An Error that names the first of them that is forbidden here, and the remedy. Costs a system call for each (2 us).
Error require_kernel_calls();

}  // namespace tern
