// What the operating system lets this process have: open files, sizes of files. An error for a limit that is reached
// names the limit and the remedy.
//
// Source: getrlimit(2). Thread rule: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"

namespace tern {

/// Raises the soft limit of open files so that `wanted` can be open, at most to the hard limit.
void raise_descriptor_limit(uint64_t wanted);
/// An error if this process cannot open `more` files in addition to the open ones. Raises the soft limit if it can.
Error require_descriptors(size_t more);
/// The system's words, and for a limit the remedy: "Too many open files (errno 24); at most 64 may be open: raise that
/// limit with ulimit -n".
std::string errno_text(int error);
/// Whether a call has failed because something has run out (descriptors, memory), and may work when some is given back.
bool is_shortage(int error);
/// Ends this process when there is no memory even for an error, or nobody to return it to. Writes one line to standard
/// error, "what: memory has run out", and exits with MPI_ERR_NO_MEM. Allocates nothing. The launcher then ends the
/// other ranks.
[[noreturn]] void end_without_memory(const char* what);
/// As ftruncate and posix_fallocate: 0 or errno. The soft limit of file sizes (RLIMIT_FSIZE) is meant for the program's
/// own files and is not applied here; exceeding the hard limit raises no signal.
int resize_file(int descriptor, uint64_t bytes);
int reserve_file(int descriptor, uint64_t at, uint64_t bytes);

}  // namespace tern
