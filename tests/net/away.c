/* Rank 0 computes for some seconds without a call to MPI, from the start on or after it has talked to all; the others
   want something of it all the while. Usage: away SECONDS [met] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Each rank sends rank 0 a block, and gets it back, each number plus one. */
static int talk(int rank, int size, int round) {
  enum { kNumbers = 3000 };
  static int block[kNumbers];
  int wrong = 0;
  for (int peer = 1; peer < size; ++peer) {
    if (rank != 0 && rank != peer) continue;
    for (int i = 0; i < kNumbers; ++i) block[i] = peer * 100000 + round * 10 + i;
    if (rank == peer) {
      MPI_Send(block, kNumbers, MPI_INT, 0, round, MPI_COMM_WORLD);
      MPI_Recv(block, kNumbers, MPI_INT, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < kNumbers; ++i) wrong += block[i] != peer * 100000 + round * 10 + i + 1;
    } else {
      MPI_Recv(block, kNumbers, MPI_INT, peer, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < kNumbers; ++i) ++block[i];
      MPI_Send(block, kNumbers, MPI_INT, peer, round, MPI_COMM_WORLD);
    }
  }
  return wrong;
}

int main(int argc, char **argv) {
  int rank, size, wrong = 0, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const double seconds = atof(argv[1]);
  if (argc > 2 && strcmp(argv[2], "met") == 0) wrong += talk(rank, size, 0);
  if (rank == 0) {
    volatile double x = 0;
    const double end = now() + seconds;
    while (now() < end) x += 1;
  } else {
    sleep(1); /* strangers fill rank 0's queues first: a call that was there before them would prove nothing */
  }
  wrong += talk(rank, size, 1);
  MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf(sum == 0 ? "exact\n" : "%d numbers wrong\n", sum);
  MPI_Finalize();
  return sum != 0;
}
