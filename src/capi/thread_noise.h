// TERN_CHECK in programs with GNU OpenMP: threads are delayed now and then, so that rare orders which the program
// allows occur. Errors of threads show only if their calls, and their writes to buffers, meet.
//
// The delays stand where OpenMP makes no promise about the order: at the start of a thread in a parallel region, at the
// start of a task, before a `single`, behind a critical section. Each place in the program gets a few. Even ranks delay
// other threads than odd ones, so that ranks differ. Source: Edelstein et al. 2002, "Multithreaded Java program test
// generation" (noise).
//
// How: the program calls libgomp through addresses in its tables of linkage, which are replaced when MPI starts, and
// stay so. Other OpenMP libraries are left alone. Thread rule: once, before the program has threads that use OpenMP.
#pragma once

namespace tern::capi {

/// `rank`: in MPI_COMM_WORLD. Does nothing if the program has no libgomp.
void disturb_openmp(int rank);

}  // namespace tern::capi
