// ranks: 2
// paths: shm
/* A rank that waits for what never comes says so: call, what it waits for, what is here unmatched, for how long. */
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv) {
  int rank, value = 1, ends[2];
  char page[4096];
  setenv("TERN_HANG_REPORT_S", "1", 1);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    MPI_Request request;
    CHECK(pipe(ends) == 0);
    int before = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    MPI_Irecv(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
    MPI_Recv(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* comes after two seconds */
    dup2(before, STDERR_FILENO);
    close(ends[1]);
    ssize_t n = read(ends[0], page, sizeof page - 1);
    page[n > 0 ? n : 0] = 0;
    CHECK(strstr(page, "[tern rank 0] waiting in MPI_Recv for 1."));
    CHECK(strstr(page, "MPI_COMM_WORLD, source 1, tag 5, up to 4 bytes"));
    CHECK(strstr(page, "MPI_COMM_WORLD, source 1, tag 6, 4 bytes"));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Recv(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Send(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
    sleep(2);
    MPI_Send(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
    MPI_Send(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
  }
  done();
  return 0;
}
