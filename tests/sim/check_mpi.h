// For MPI programs in the simulated world: a call that fails ends the program with its line as the exit code.
#pragma once

#define CHECK_MPI(call)                         \
  do {                                          \
    if ((call) != MPI_SUCCESS) return __LINE__; \
  } while (0)
