/* What the test programs share: a check that names what failed, and a pattern of bytes that no two messages share. */
#ifndef TERN_TESTS_CHECK_H
#define TERN_TESTS_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                              \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      int check_rank_ = -1;                                                                           \
      MPI_Comm_rank(MPI_COMM_WORLD, &check_rank_);                                                    \
      fprintf(stderr, "%s:%d: rank %d: not true: %s\n", __FILE__, __LINE__, check_rank_, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                   \
    }                                                                                                 \
  } while (0)

static inline unsigned char pattern(long seed, long i) {
  unsigned long x = (unsigned long)seed * 0x9e3779b97f4a7c15ul + (unsigned long)i * 0xbf58476d1ce4e5b9ul;
  return (unsigned char)(x >> 56 ^ x >> 24);
}
static inline void fill(void* buffer, long seed, long bytes) {
  for (long i = 0; i < bytes; i++) ((unsigned char*)buffer)[i] = pattern(seed, i);
}
static inline int holds(const void* buffer, long seed, long bytes) {
  for (long i = 0; i < bytes; i++) {
    if (((const unsigned char*)buffer)[i] != pattern(seed, i)) return 0;
  }
  return 1;
}
static inline void done(void) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("ok");
  MPI_Finalize();
}

#endif
