/* A program of steps, as simulations are: each rank computes for --us microseconds (500) and a part of --imbalance
 * percent (20) more that changes from step to step and rank to rank, exchanges --bytes (8192) with both neighbours in a
 * ring, and agrees on the next step's length (MPI_Allreduce of 8 B).
 *
 *   step   x: ranks; us a step, median of batches of --steps (40)
 *   cpu    x: ranks; percent of the time that a rank was on a processor, mean */
#include "bench.h"

#define ROUNDS 15

static long loops_per_us(void) {
  double best = 1e9;
  for (int i = 0; i < 200; i++) {
    double began = MPI_Wtime();
    work(10000);
    double took = (MPI_Wtime() - began) * 1e6;
    if (took < best) best = took;
  }
  return (long)(10000 / best) + 1;
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long us = argument(argc, argv, "--us", 500), percent = argument(argc, argv, "--imbalance", 20);
  long bytes = argument(argc, argv, "--bytes", 8192), steps = argument(argc, argv, "--steps", 40);
  char *out = touched(2 * (size_t)bytes), *in = touched(2 * (size_t)bytes);
  int left = (rank + size - 1) % size, right = (rank + 1) % size;
  long loops = loops_per_us();
  MPI_Bcast(&loops, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  unsigned chance = 12345u * (unsigned)(rank + 1);
  double times[ROUNDS], cpu = 0, elapsed = 0;
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime(), used = cpu_us();
    for (long step = 0; step < steps; step++) {
      MPI_Request requests[4];
      MPI_Irecv(in, (int)bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
      MPI_Irecv(in + bytes, (int)bytes, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[1]);
      chance = chance * 1103515245u + 12345u;
      work(us * loops + us * loops * percent / 100 * (long)(chance >> 16 & 1023) / 1024);
      MPI_Isend(out, (int)bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[2]);
      MPI_Isend(out + bytes, (int)bytes, MPI_BYTE, left, 2, MPI_COMM_WORLD, &requests[3]);
      MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
      double mine = (double)step, least;
      MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    }
    double took = (MPI_Wtime() - began) * 1e6;
    elapsed += took;
    cpu += cpu_us() - used;
    times[i] = took / (double)steps;
  }
  double mine = 100 * cpu / elapsed, all;
  MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  double middle = median(times, ROUNDS);
  if (rank == 0) {
    point("step", size, middle, "us");
    point("cpu", size, all / size, "%");
  }
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
