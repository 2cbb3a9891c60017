/* How late a rank goes on that has waited for long: rank 0 computes for so long, takes the time and sends it (8 B);
 * rank 1, which has said that it is about to wait, takes the time when MPI_Recv returns. Both clocks are
 * CLOCK_MONOTONIC, so the ranks must run on one machine.
 *
 *   late   x: the wait in us; microseconds from just before MPI_Send to just after MPI_Recv, median
 *   late-90   the same, nine of ten are better
 *   cpu    x: the wait in us; percent of it that rank 1 was on a processor (100: it polled, 0: it slept)
 *
 * --only US: that wait; --rounds N: of each, instead of as many as take a quarter of a second. */
#include <time.h>
#include "bench.h"

#define MAX_ROUNDS 2001

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void wait_for(long us, int rank, int rounds) {
  static double late[MAX_ROUNDS];
  double sent, waited = 0, used = 0;
  for (int i = -2; i < rounds; i++) { /* the first two warm up */
    if (rank == 0) {
      MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (double end = now_us() + (double)us; now_us() < end;) work(100);
      sent = now_us();
      MPI_Send(&sent, 1, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD);
    } else {
      double cpu = cpu_us(), began = now_us();
      MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
      MPI_Recv(&sent, 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      double ended = now_us();
      if (i < 0) continue;
      late[i] = ended - sent;
      waited += ended - began;
      used += cpu_us() - cpu;
    }
  }
  if (rank == 0) return;
  double middle = median(late, rounds);
  point("late", us, middle, "us");
  point("late-90", us, late[rounds * 9 / 10], "us");
  point("cpu", us, 100 * used / waited, "%");
}

int main(int argc, char **argv) {
  static const long waits[] = {5, 20, 50, 200, 1000, 5000, 20000, 100000};
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long only = argument(argc, argv, "--only", 0), rounds = argument(argc, argv, "--rounds", 0);
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
    long us = only ? only : waits[i], n = rounds ? rounds : 250000 / us;
    wait_for(us, rank, (int)(n < 5 ? 5 : n > MAX_ROUNDS ? MAX_ROUNDS : n));
    if (only) break;
  }
  MPI_Finalize();
  return 0;
}
