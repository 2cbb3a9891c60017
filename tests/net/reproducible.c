/* Prints the bits of reductions of numbers of very different sizes, as a number for each kind and length: with
 * tern_reproducible they are the same on any hosts. Argument: `plain` leaves the info key out. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mixed(uint64_t hash, const double *values, int count) {
  for (int i = 0; i < count; i++) {
    uint64_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3u;
  }
  return hash;
}

int main(int argc, char **argv) {
  static const int counts[] = {1, 100, 3000, 70000};
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm comm;
  MPI_Info info;
  MPI_Info_create(&info);
  if (argc < 2 || strcmp(argv[1], "plain")) MPI_Info_set(info, "tern_reproducible", "true");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Info_free(&info);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  for (int k = 0; k < 4; k++) {
    const int n = counts[k];
    double *mine = malloc(sizeof(double) * (size_t)n), *sum = malloc(sizeof(double) * (size_t)n);
    uint64_t seed = (uint64_t)rank * 2654435761u + 17, hash = 0, all = 0;
    for (int i = 0; i < n; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      mine[i] = (double)(int32_t)(seed >> 32) * ((seed >> 20 & 1) ? 1e-9 : 1e6);
    }
    for (int round = 0; round < 6; round++) { /* the first calls do not know the hosts yet */
      MPI_Allreduce(mine, sum, n, MPI_DOUBLE, MPI_SUM, comm);
      hash = mixed(hash, sum, n);
      MPI_Reduce(mine, sum, n, MPI_DOUBLE, MPI_SUM, ranks - 1, comm);
      if (rank == ranks - 1) hash = mixed(hash, sum, n);
      MPI_Scan(mine, sum, n, MPI_DOUBLE, MPI_SUM, comm);
      hash = mixed(hash, sum, n);
    }
    MPI_Reduce(&hash, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, comm);
    if (rank == 0) printf("%d numbers: %016llx\n", n, (unsigned long long)all);
    free(mine);
    free(sum);
  }
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return 0;
}
