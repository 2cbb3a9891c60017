// Files on machines that others use, too. What is written is for this user alone: made with mode 0600, and never
// through a symbolic link, into another user's file, or into one that has a second name. What is read must be this
// user's, the administrator's, or of an owner that is named; nobody else may be able to change it. Source: CERT
// FIO01-C, FIO22-C; protected_symlinks in Linux's admin-guide/sysctl/fs. Thread rule: pure functions.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/descriptor.h"

namespace tern {

/// To write; `flags`: O_APPEND or O_TRUNC, which holds for files that may be written only. None: `why` says why not.
/// Devices may be named, too, and pipes that have a reader.
Descriptor open_own_file(const std::string& path, int flags, std::string& why);
/// Whether it could be written, without making or changing anything; false: `why` says why not.
bool could_be_own_file(const std::string& path, std::string& why);

/// To read a file that decides what this process does. `also`: one more user whose file may be read. None: `why` says
/// why not, and errno is ENOENT where there is no such file.
Descriptor open_trusted_file(const std::string& path, uid_t also, std::string& why);
/// The whole file; false: as above.
bool read_trusted_file(const std::string& path, uid_t also, std::string& text, std::string& why);

}  // namespace tern
