// The operating system's error for a file, as an MPI error: class, path, operation and the system's own reason.
// Source: MPI 5.0, 14.8, table 16. Thread rule: pure functions.
#pragma once

#include <string_view>

#include "base/error.h"

namespace tern::io {

/// The error class of an errno value. EFBIG is a limit of the file system or of the user (ulimit -f): no space.
ErrorClass class_of(int number);
/// "open of '/scratch/a' failed: No such file or directory (ENOENT)", with a remedy where there is one.
Error system_error(std::string_view operation, std::string_view path, int number);

}  // namespace tern::io
