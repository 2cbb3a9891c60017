/* A counter in one rank's memory from which all ranks take numbers, one-sided: rank 0 does nothing for it. So work
 * shares itself out without a master: whoever is free takes the next number.
 *
 *   mpicc counter.c -o counter && mpiexec -n 4 ./counter [numbers]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const long numbers = argc > 1 ? atol(argv[1]) : 10000;

  long *counter;
  MPI_Win window;
  MPI_Win_allocate(rank == 0 ? sizeof *counter : 0, sizeof *counter, MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &window);
  if (rank == 0) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    *counter = 0;
    MPI_Win_unlock(0, window);
  }
  MPI_Barrier(MPI_COMM_WORLD);

  const long one = 1;
  long number = 0, sum = 0, all = 0;
  MPI_Win_lock_all(0, window);
  while (1) {
    MPI_Fetch_and_op(&one, &number, MPI_LONG, 0, 0, MPI_SUM, window);
    MPI_Win_flush(0, window);
    if (number >= numbers) break;
    sum += number;
  }
  MPI_Win_unlock_all(window);

  MPI_Reduce(&sum, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("sum of %ld numbers, each taken once: %ld\n", numbers, all);
  MPI_Win_free(&window);
  return MPI_Finalize();
}
