// Functions that the bodies about files share. Source: MPI 5.0 chapter 14. Thread rule: under the rank's lock.
#pragma once

#include "capi/call.h"
#include "io/file.h"

namespace tern::capi {

inline io::File& file_of(File& handle) { return *handle.file; }

/// The whence argument of the seeks.
Error whence_of(int whence, io::Whence& from);

}  // namespace tern::capi
