// What the operating system lets this process have: open files, sizes of files. A rank that is short of something says
// so at once, with the limit's name and the remedy.
//
// Source: getrlimit(2). Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace tern {

/// Raises the soft limit of open files, as far as the hard one allows, so that `wanted` can be open.
void raise_descriptor_limit(uint64_t wanted);
/// An error if this process cannot open `more` files beside those that are open; raises the soft limit where it can.
Error require_descriptors(size_t more);
/// "Too many open files (errno 24); at most 64 may be open: raise that limit with ulimit -n": the system's words, and
/// for a limit the remedy.
std::string errno_text(int error);
/// Whether a call has failed because something has run out (descriptors, memory), and may work when some is given back.
bool is_shortage(int error);
/// Ends this process when not even an error can be made, or nobody could be told of it: one line to standard error,
/// "what: memory has run out", and MPI_ERR_NO_MEM as the exit code. Allocates nothing; the launcher ends the other
/// ranks.
[[noreturn]] void end_without_memory(const char* what);
/// As ftruncate and posix_fallocate: 0 or errno. A soft limit of file sizes (RLIMIT_FSIZE) is meant for the program's
/// own files and does not count, and no signal is raised for the hard one.
int resize_file(int descriptor, uint64_t bytes);
int reserve_file(int descriptor, uint64_t at, uint64_t bytes);

}  // namespace tern
