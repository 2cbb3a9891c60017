/* Bad calls: each must return the class it deserves, and leave a text that names function, argument, value
 * and rank. */
#ifndef TERN_TESTS_EXPECT_H
#define TERN_TESTS_EXPECT_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

/* The call's result is `expected`, and the text of the error holds all of `parts` (up to a NULL). */
static void expect_error(const char* file, int line, const char* call, int result, int expected, const char* parts[]) {
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0, class = -1;
  MPI_Error_class(result, &class);
  MPI_Error_string(result, text, &length);
  if (result != expected || class != expected) {
    fprintf(stderr, "%s:%d: %s: returned %d (class %d), not %d: %s\n", file, line, call, result, class, expected, text);
    failures++;
    return;
  }
  for (int i = 0; parts[i]; i++) {
    if (!strstr(text, parts[i])) {
      fprintf(stderr, "%s:%d: %s: the text has no \"%s\": %s\n", file, line, call, parts[i], text);
      failures++;
    }
  }
}

#define EXPECT(call, class, ...)                                      \
  do {                                                                \
    const char* parts_[] = {__VA_ARGS__, NULL};                       \
    expect_error(__FILE__, __LINE__, #call, (call), (class), parts_); \
  } while (0)

#define FINE(call)                                                          \
  do {                                                                      \
    int result_ = (call);                                                   \
    if (result_ != MPI_SUCCESS) {                                           \
      char text_[MPI_MAX_ERROR_STRING + 1] = "";                            \
      int length_;                                                          \
      MPI_Error_string(result_, text_, &length_);                           \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text_); \
      failures++;                                                           \
    }                                                                       \
  } while (0)

#define TRUE_OR_FAIL(condition)                                                 \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      failures++;                                                               \
    }                                                                           \
  } while (0)

static void begin(int* argc, char*** argv, int* rank, int* size) {
  MPI_Init(argc, argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
}

static int end(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return failures != 0;
}

#endif
