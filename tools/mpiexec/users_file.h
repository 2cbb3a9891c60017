// Reading the files that a user names to mpiexec (-hostfile, -configfile): they say which programs run, and where.
// Thread rule: pure functions.
#pragma once

#include <string>

namespace tern::mpiexec {

/// The whole file, which must be the user's, the administrator's, or of who has installed mpiexec (base/owned_file.h).
/// What the shell hands over (/dev/stdin, /dev/fd/63) is read as it is. False: `why` says why not.
bool read_users_file(const std::string& path, std::string& text, std::string& why);

}  // namespace tern::mpiexec
