/* Streaming puts: rank 0 puts into rank 1's window, 64 times between two flushes; rank 1 waits in a barrier. Bandwidth
 * in GB/s (10^9). Beside bandwidth.c, and fi_rma_bw (bench/libfabric). */
#include "bench.h"

#define WINDOW 64

/* Microseconds for 64 puts and a flush; the same on every rank. */
static double batch(const char *data, int bytes, int rank, MPI_Win window, int windows) {
  double began = MPI_Wtime();
  for (int w = 0; rank == 0 && w < windows; w++) {
    for (int i = 0; i < WINDOW; i++) MPI_Put(data, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
    MPI_Win_flush(1, window);
  }
  double us = (MPI_Wtime() - began) * 1e6 / windows;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Bcast(&us, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return us;
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long most = argument(argc, argv, "--max", 4 << 20);
  char *data = touched((size_t)most), *memory = touched((size_t)most);
  MPI_Win window;
  MPI_Win_create(memory, most, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  if (rank == 0) MPI_Win_lock_all(0, window);
  for (long bytes = 8; bytes <= most; bytes *= 2) {
    double values[BATCHES];
    batch(data, (int)bytes, rank, window, 2);
    int n = repetitions(batch(data, (int)bytes, rank, window, 2), 5000);
    for (int i = 0; i < BATCHES; i++) values[i] = batch(data, (int)bytes, rank, window, n);
    if (rank == 0) point("puts", bytes, WINDOW * (double)bytes / median(values, BATCHES) / 1e3, "GB/s");
  }
  if (rank == 0) MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  free(data);
  free(memory);
  MPI_Finalize();
  return 0;
}
