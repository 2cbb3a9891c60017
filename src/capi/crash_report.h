// A rank that dies of a fault says so: rank, signal, address, and where, with a backtrace. The signal then takes its
// usual way: a core dump, and the exit status that mpiexec reports. Thread rule: begin_ under the rank's lock.
#pragma once

namespace tern::capi {

/// Handles those of SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT that the program (or a sanitizer, a debugger's runtime)
/// does not handle itself; a handler that it sets later replaces this one. The calling thread gets a signal stack, if
/// it has none, so that a stack overflow can be reported. TERN_BACKTRACE=0: does nothing. Only the first call does
/// anything.
void begin_to_report_crashes(int rank);

}  // namespace tern::capi
