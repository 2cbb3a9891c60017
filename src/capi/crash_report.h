// A rank that dies of a fault says so: rank, signal, address, and where, with a backtrace. The signal then takes its
// usual way: a core dump, and the exit status that mpiexec reports. Thread rule: begin_ under the rank's lock.
#pragma once

namespace tern::capi {

/// Handles those of SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and SIGTRAP that the program (or a sanitizer, a debugger's
/// runtime) does not handle itself; a handler that it sets later replaces this one. The calling thread gets a signal
/// stack, if it has none, so that a stack overflow can be reported: also where the program has a handler that needs
/// room on the full stack. The Fortran library's handlers come after this one. TERN_BACKTRACE=0: does nothing. Only the
/// first call does anything. `mpiexec_descriptor`: where Tern's own mpiexec takes the report (rank_report.h), which
/// then writes those of ranks that say the same as one; -1: nowhere. Borrowed until end_of_mpiexec.
void begin_to_report_crashes(int rank, int mpiexec_descriptor);
/// Before the launcher's connection is closed: later reports go to standard error.
void end_of_mpiexec();

}  // namespace tern::capi
