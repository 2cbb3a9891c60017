// The main part of programs that run one of several cases: `program CASE`.
#pragma once

#include <mpi.h>
#include <stddef.h>
#include <string.h>

struct Case {
  const char* name;
  void (*run)(void);
};

/// Runs the case that the command names, between MPI_Init_thread and MPI_Finalize; `rank` is set before. The program's
/// exit code: 2 if there is no such case.
static inline int run_case(int argc, char** argv, const struct Case* cases, size_t count, int level, int* rank) {
  int provided;
  MPI_Init_thread(&argc, &argv, level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  for (size_t i = 0; i < count; ++i) {
    if (argc < 2 || strcmp(argv[1], cases[i].name) != 0) continue;
    cases[i].run();
    MPI_Finalize();
    return 0;
  }
  return 2;
}
