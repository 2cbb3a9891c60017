// The content of MPI_INFO_ENV. Source: MPI 5.0 section 10.2.
#pragma once

#include "comm/info.h"
#include "process/process.h"

namespace tern::capi {

/// Fills in the known values; `process` may be null.
void fill_environment(Info& info, int argc, char** argv, const Process* process);

/// "MPI_THREAD_SINGLE" …
const char* thread_level_name(int level);

}  // namespace tern::capi
