/* Streaming between pairs of ranks (i with i + size/2): windows of 64 nonblocking messages and a short answer.
 * --both 1: both directions at once. Bandwidth in GB/s (10^9) and message rate, summed over pairs. */
#include "bench.h"

#define WINDOW 64

static double batch(char *out, char *in, int bytes, int lower, int partner, int both, int windows) {
  MPI_Request requests[2 * WINDOW];
  char answer = 0;
  double began = MPI_Wtime();
  for (int w = 0; w < windows; w++) {
    int n = 0;
    if (both || !lower) {
      for (int i = 0; i < WINDOW; i++) MPI_Irecv(in, bytes, MPI_BYTE, partner, 2, MPI_COMM_WORLD, &requests[n++]);
    }
    if (both || lower) {
      for (int i = 0; i < WINDOW; i++) MPI_Isend(out, bytes, MPI_BYTE, partner, 2, MPI_COMM_WORLD, &requests[n++]);
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    if (lower) MPI_Recv(&answer, 1, MPI_BYTE, partner, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Send(&answer, 1, MPI_BYTE, partner, 3, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - began) * 1e6 / windows;
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 2 || size % 2) {
    fprintf(stderr, "bandwidth: pairs of ranks, so an even number\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  long most = argument(argc, argv, "--max", 4 << 20);
  int both = (int)argument(argc, argv, "--both", 0), pairs = size / 2;
  int lower = rank < pairs, partner = lower ? rank + pairs : rank - pairs;
  char *out = touched((size_t)most), *in = touched((size_t)most);
  for (long bytes = 1; bytes <= most; bytes = bytes < 8 ? 8 : bytes * 2) {
    double values[BATCHES];
    batch(out, in, (int)bytes, lower, partner, both, 2);
    values[0] = batch(out, in, (int)bytes, lower, partner, both, 2);
    int n = repetitions(values[0], 5000);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < BATCHES; i++) values[i] = batch(out, in, (int)bytes, lower, partner, both, n);
    double us = median(values, BATCHES), rate = WINDOW * (both ? 2 : 1) / us, total = 0;
    MPI_Reduce(&rate, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    total /= 2; /* both members of a pair counted it */
    if (rank == 0) {
      point(both ? "bidirectional" : "bandwidth", bytes, total * (double)bytes / 1e3, "GB/s");
      point(both ? "rate-bidirectional" : "rate", bytes, total, "M/s");
    }
  }
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
