/* A bit of everything that allocates, under an allocator of which one allocation fails (failing_allocator.c).
   Without an argument errors are fatal; with "return" each call's error class is looked at, and the first error ends
   the job. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((weak)) void begin_counting(void);

enum { kMost = 70000 };

static int rank, size;
static int values[kMost], others[kMost];

static void check(int error, const char *what) {
  if (error == MPI_SUCCESS) return;
  int error_class = -1, length = 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  MPI_Error_class(error, &error_class);
  MPI_Error_string(error, text, &length);
  fprintf(stderr, "rank %d: %s: class %d: %s\n", rank, what, error_class, text);
  MPI_Abort(MPI_COMM_WORLD, 40 + (error_class != MPI_ERR_NO_MEM));
}
#define CHECK(call) check(call, #call)

static void expect(int condition, const char *what) {
  if (condition) return;
  printf("wrong: %s, rank %d\n", what, rank);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 77);
}

static void messages(void) {
  const int lengths[] = {1, 300, 3000, kMost}, left = (rank + size - 1) % size, right = (rank + 1) % size;
  for (int i = 0; i < 4; ++i) {
    MPI_Request requests[4];
    for (int k = 0; k < lengths[i]; ++k) values[k] = 1000 * rank + i + k;
    for (int k = 0; k < 2; ++k) CHECK(MPI_Isend(values, lengths[i], MPI_INT, right, k, MPI_COMM_WORLD, &requests[k]));
    /* The first is unexpected, mostly. */
    CHECK(MPI_Recv(others, lengths[i], MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(MPI_Irecv(others, lengths[i], MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &requests[2]));
    CHECK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < lengths[i]; ++k) expect(others[k] == 1000 * left + i + k, "message");
  }
}

static void types_and_collectives(void) {
  MPI_Datatype column;
  MPI_Comm copy, half;
  CHECK(MPI_Type_vector(100, 2, 5, MPI_INT, &column));
  CHECK(MPI_Type_commit(&column));
  CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  CHECK(MPI_Comm_set_name(copy, "a name that is longer than what fits without an allocation"));
  CHECK(MPI_Comm_split(copy, rank % 2, 0, &half));
  for (int k = 0; k < 500; ++k) values[k] = k;
  CHECK(MPI_Bcast(values, 1, column, 0, copy));
  CHECK(MPI_Allreduce(values, others, 500, MPI_INT, MPI_SUM, copy));
  for (int k = 0; k < 500; ++k) expect(others[k] == size * k, "allreduce");
  CHECK(MPI_Alltoall(values, 10, MPI_INT, others, 10, MPI_INT, copy));
  MPI_Request request;
  CHECK(MPI_Iallgather(&rank, 1, MPI_INT, others, 1, MPI_INT, copy, &request));
  CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  for (int k = 0; k < size; ++k) expect(others[k] == k, "allgather");
  CHECK(MPI_Comm_free(&half));
  CHECK(MPI_Comm_free(&copy));
  CHECK(MPI_Type_free(&column));
}

static void windows(void) {
  MPI_Win win;
  int *base;
  CHECK(MPI_Win_allocate(400, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
  CHECK(MPI_Win_fence(0, win));
  CHECK(MPI_Put(values, 50, MPI_INT, (rank + 1) % size, 0, 50, MPI_INT, win));
  CHECK(MPI_Win_fence(0, win));
  for (int k = 0; k < 50; ++k) expect(base[k] == values[k], "put");
  CHECK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
  CHECK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
  CHECK(MPI_Accumulate(values, 50, MPI_INT, 0, 50, 50, MPI_INT, MPI_SUM, win));
  CHECK(MPI_Win_unlock(0, win));
  CHECK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
  if (begin_counting) begin_counting();
  const int error = MPI_Init(&argc, &argv);
  if (error != MPI_SUCCESS) return 3;
  if (argc > 1) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size));
  messages();
  types_and_collectives();
  windows();
  CHECK(MPI_Barrier(MPI_COMM_WORLD));
  CHECK(MPI_Finalize());
  static const char said[] = "exact\n"; /* in one piece, without the allocations of stdio */
  return fwrite(said, 1, sizeof said - 1, stdout) == sizeof said - 1 ? 0 : 1;
}
