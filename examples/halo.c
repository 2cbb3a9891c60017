/* Halo exchange with overlap: the 1-D heat equation on a ring. Each rank sends its two outermost points to its
 * neighbours and computes all points that need no neighbour while the messages are on their way.
 *
 *   mpicc halo.c -o halo && mpiexec -n 4 ./halo [points per rank] [steps]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double average(const double *t, int i) { return 0.25 * t[i - 1] + 0.5 * t[i] + 0.25 * t[i + 1]; }

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int points = argc > 1 ? atoi(argv[1]) : 1000, steps = argc > 2 ? atoi(argv[2]) : 100;
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  /* Points 1 to `points` are this rank's; 0 and `points` + 1 are copies of the neighbours' outermost ones. */
  double *now = calloc((size_t)points + 2, sizeof *now), *next = calloc((size_t)points + 2, sizeof *next);
  if (points < 2 || !now || !next) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int i = 1; i <= points; i++) now[i] = rank == 0 ? 100.0 : 0.0;

  for (int step = 0; step < steps; step++) {
    MPI_Request requests[4];
    MPI_Irecv(&now[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&now[points + 1], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&now[points], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&now[1], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[3]);
    for (int i = 2; i < points; i++) next[i] = average(now, i);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    next[1] = average(now, 1);
    next[points] = average(now, points);
    double *swapped = now;
    now = next;
    next = swapped;
  }

  double heat = 0, all = 0;
  for (int i = 1; i <= points; i++) heat += now[i];
  MPI_Reduce(&heat, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("heat after %d steps: %.3f of %.3f\n", steps, all, 100.0 * points);
  free(now);
  free(next);
  return MPI_Finalize();
}
