/* A halo exchange in a ring with computation in each step, for the tests of time: arguments: steps, bytes, loops. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int steps = argc > 1 ? atoi(argv[1]) : 10, bytes = argc > 2 ? atoi(argv[2]) : 8;
  const long loops = argc > 3 ? atol(argv[3]) : 100000;
  char *out = calloc(2, (size_t)bytes), *in = calloc(2, (size_t)bytes);
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  volatile double x = rank;
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int step = 0; step < steps; ++step) {
    MPI_Request requests[4];
    MPI_Irecv(in, bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in + bytes, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(out, bytes, MPI_BYTE, right, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(out + bytes, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[3]);
    for (long i = 0; i < loops; ++i) x = x * 0.999 + 1;
    int over = 0;
    MPI_Test(&requests[0], &over, MPI_STATUS_IGNORE);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    double mine = x, most = 0;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  const double took = MPI_Wtime() - began;
  if (rank == 0) printf("time %.9f\n", took);
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
