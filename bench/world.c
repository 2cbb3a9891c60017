/* What a large world costs: MPI_Init, a barrier, an allreduce of 8 bytes, a ring of 64 KiB messages, MPI_Finalize. The
 * time of each part, by rank 0 (on a simulated machine: virtual). */
#include "bench.h"

#define RING_BYTES 65536

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double began = MPI_Wtime();
  MPI_Barrier(MPI_COMM_WORLD);
  double barrier = MPI_Wtime();
  long mine = rank, sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  double allreduce = MPI_Wtime();
  char *out = touched(RING_BYTES), *in = touched(RING_BYTES);
  memset(out, rank & 127, RING_BYTES);
  const int left = (rank + size - 1) % size;
  MPI_Sendrecv(out, RING_BYTES, MPI_BYTE, (rank + 1) % size, 0, in, RING_BYTES, MPI_BYTE, left, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  double ring = MPI_Wtime();
  const int wrong = sum != (long)size * (size - 1) / 2 || in[0] != (left & 127) || in[RING_BYTES - 1] != (left & 127);
  free(out);
  free(in);
  if (wrong) MPI_Abort(MPI_COMM_WORLD, 1);
  if (rank == 0) {
    point("barrier", size, 1e6 * (barrier - began), "us");
    point("allreduce", size, 1e6 * (allreduce - barrier), "us");
    point("ring", size, 1e6 * (ring - allreduce), "us");
  }
  MPI_Finalize();
  return 0;
}
