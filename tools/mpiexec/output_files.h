// Files for the ranks' output: -outfile-pattern, -errfile-pattern, --output-filename.
#pragma once

#include "plan.h"

namespace tern::mpiexec {

/// Whether stream 1 (output) or 2 (errors) of the ranks goes to a file of its own.
bool has_output_file(const OutputFiles& files, int stream);

/// Opens that file of `rank`, of `ranks` in all; folders are made. A file that several ranks have in common is theirs
/// in turns, line by line as they write it. -1: errno says why; `path` is its name.
int open_output_file(const OutputFiles& files, int rank, int ranks, int stream, std::string& path);

}  // namespace tern::mpiexec
