/* In the simulated world, loaded as a shared object (capi/simulated/program_copies.h): statics are each rank's own. */
#include <mpi.h>
#include <stdio.h>

static int counted;

int main(int argc, char **argv) {
  int rank, size, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  counted += rank + 1;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Allreduce(&counted, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  const int own = counted == rank + 1 && sum == size * (size + 1) / 2;
  if (!own) printf("rank %d: counted %d, the sum is %d\n", rank, counted, sum);
  MPI_Finalize();
  return !own;
}
