// Files for the ranks' output: -outfile-pattern, -errfile-pattern, --output-filename.
#pragma once

#include "plan.h"

namespace tern::mpiexec {

/// Whether stream 1 (output) or 2 (errors) of the ranks goes to a file.
bool has_output_file(const OutputFiles& files, int stream);

/// Opens that file of `rank`, of `ranks` in all, on `host` (empty: this one); makes folders. In a file that several
/// ranks share, lines appear as they are written. -1: `why` says why not; `path` is its name.
int open_output_file(const OutputFiles& files, int rank, int ranks, int stream, const std::string& host,
                     std::string& path, std::string& why);

}  // namespace tern::mpiexec
