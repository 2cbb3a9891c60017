// Names of signals and of error numbers: glibc has them since 2.32 only, other C libraries have none. Thread rule: any
// thread, signal handlers too.
#pragma once

namespace tern {

/// "SEGV" for SIGSEGV; null: this number has no name.
const char* signal_name(int signal);
/// "Segmentation fault", as glibc and shells call it; null: this number has no name.
const char* signal_meaning(int signal);
/// "ENOENT"; null: an unusual number.
const char* error_name(int number);

}  // namespace tern
