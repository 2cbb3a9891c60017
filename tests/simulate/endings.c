/* How a rank can end: the word says how rank 1 does. */
#include <assert.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int deep(int n) {
  volatile char room[4096];
  room[0] = (char)n;
  return n == 0 ? room[0] : deep(n - 1) + room[0];
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "return";
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("rank %d begins\n", rank);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    volatile int *nowhere = NULL;
    if (!strcmp(how, "exit")) exit(5);
    if (!strcmp(how, "_exit")) _exit(6);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "assert")) assert(rank == 0);
    if (!strcmp(how, "segv")) *nowhere = 1;
    if (!strcmp(how, "raise")) raise(SIGTERM);
    if (!strcmp(how, "overflow")) return deep(1 << 20);
    if (!strcmp(how, "mpi_abort")) MPI_Abort(MPI_COMM_WORLD, 9);
    if (!strcmp(how, "wrong")) MPI_Send(&rank, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
    if (!strcmp(how, "hang")) MPI_Recv(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(how, "fork")) printf("fork %d\n", (int)fork());
  }
  MPI_Finalize();
  return rank == 1 && !strcmp(how, "after") ? 4 : 0;
}
