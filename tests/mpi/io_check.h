/* What the programs about files share: a name for a file of their own, and calls that must succeed. */
#ifndef TERN_TESTS_IO_CHECK_H
#define TERN_TESTS_IO_CHECK_H

#include <unistd.h>

#include "check.h"

#define FINE(call)                                                                          \
  do {                                                                                      \
    int fine_ = (call);                                                                     \
    if (fine_ != MPI_SUCCESS) {                                                             \
      char text_[MPI_MAX_ERROR_STRING] = "";                                                \
      int length_, rank_;                                                                   \
      MPI_Error_string(fine_, text_, &length_);                                             \
      MPI_Comm_rank(MPI_COMM_WORLD, &rank_);                                                \
      fprintf(stderr, "%s:%d: rank %d: %s: %s\n", __FILE__, __LINE__, rank_, #call, text_); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                         \
    }                                                                                       \
  } while (0)

/* The call must fail with this class. */
#define FAILS(call, class)                                                                                  \
  do {                                                                                                      \
    int fails_ = (call), fails_class_ = MPI_SUCCESS;                                                        \
    MPI_Error_class(fails_, &fails_class_);                                                                 \
    if (fails_class_ != (class)) {                                                                          \
      char text_[MPI_MAX_ERROR_STRING] = "";                                                                \
      int length_, rank_;                                                                                   \
      MPI_Error_string(fails_, text_, &length_);                                                            \
      MPI_Comm_rank(MPI_COMM_WORLD, &rank_);                                                                \
      fprintf(stderr, "%s:%d: rank %d: %s: not %s: %s\n", __FILE__, __LINE__, rank_, #call, #class, text_); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                         \
    }                                                                                                       \
  } while (0)

/* The same name at all ranks; there is no file of that name. Folder null: TERN_TEST_FOLDER, or /tmp. */
static inline const char* new_name_in(const char* folder) {
  static char name[256];
  static int number;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    if (!folder) folder = getenv("TERN_TEST_FOLDER");
    snprintf(name, sizeof name, "%s/tern-io-%d-%d", folder ? folder : "/tmp", (int)getpid(), number++);
    unlink(name);
  }
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  return name;
}
static inline const char* new_name(void) { return new_name_in(NULL); }

static inline MPI_Count count_of(const MPI_Status* status, MPI_Datatype type) {
  MPI_Count count = -1;
  MPI_Get_count_c(status, type, &count);
  return count;
}

#endif
