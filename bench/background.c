/* How much of a transfer passes while both sides compute. Ranks 0 (sends) and 1 (receives); sizes from --min to --max.
 *
 * Default: a fixed amount of work on both sides, twice as long as the transfer takes without work:
 *     both: start the transfer; work; wait
 *   transfer  us     of starting and waiting without work
 *   work      us     of the work alone, on both sides at once
 *   total     us     with the work: the later side
 *   wait      us     in MPI_Wait: the longer one
 *   overlap   percent of the transfer that has passed during the work: (work + transfer - total) / transfer
 *   cpu       percent of a processor that the whole process has used during these, by the kernel's account: both sides' mean
 *
 * --increments N: Figure 4.9 of paper 002: the sender is blocking, the receiver makes N increments between MPI_Irecv and
 * MPI_Wait and answers with 4 bytes.
 *   wait-time, total-receive-time  us  of the receiver
 *
 * Medians over iterations; an iteration's figure is the larger of both sides'. */
#include "bench.h"

enum { kMost = 201, kTag = 5 };

#ifdef BENCH_SIMULATED
static void increment(long increments) { work(increments); }
#else
static void increment(long increments) {
  for (volatile long i = 0; i < increments; i++) {
  }
}
#endif

static double median_of_larger(double *mine, int n) {
  double larger[kMost];
  MPI_Allreduce(mine, larger, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return median(larger, n);
}

struct Times {
  double total, wait, cpu;
};

/* `increments` < 0: no transfer, that many increments. */
static struct Times both_work(char *buffer, int bytes, int rank, long increments, int n) {
  double totals[kMost], waits[kMost];
  struct Times times = {0, 0, 0};
  double used = 0, passed = 0;
  for (int i = -2; i < n; i++) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    double cpu = cpu_us(), began = MPI_Wtime();
    if (increments >= 0) {
      if (rank == 0) MPI_Isend(buffer, bytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &request);
      else MPI_Irecv(buffer, bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
    }
    increment(increments < 0 ? -increments : increments);
    double waiting = MPI_Wtime();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    double ended = MPI_Wtime();
    if (i < 0) continue;
    totals[i] = (ended - began) * 1e6;
    waits[i] = (ended - waiting) * 1e6;
    used += cpu_us() - cpu;
    passed += totals[i];
  }
  times.total = median_of_larger(totals, n);
  times.wait = median_of_larger(waits, n);
  double share = 50 * used / passed;
  MPI_Allreduce(&share, &times.cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return times;
}

static int iterations(double each_us) {
  int n = (int)(400e3 / each_us);
  return n < 11 ? 11 : n > kMost ? kMost : n;
}

static void fixed_work(char *buffer, int bytes, int rank, double increment_us) {
  double transfer = both_work(buffer, bytes, rank, 0, 21).total;
  int n = iterations(3 * transfer);
  transfer = both_work(buffer, bytes, rank, 0, n).total;
  long increments = (long)(2 * transfer / increment_us);
  double alone = both_work(buffer, bytes, rank, -increments, n).total;
  struct Times with = both_work(buffer, bytes, rank, increments, n);
  if (rank != 0) return;
  point("transfer", bytes, transfer, "us");
  point("work", bytes, alone, "us");
  point("total", bytes, with.total, "us");
  point("wait", bytes, with.wait, "us");
  point("overlap", bytes, 100 * (alone + transfer - with.total) / transfer, "percent");
  point("cpu", bytes, with.cpu, "percent-of-a-core");
}

static void figure_4_9(char *buffer, int bytes, int rank, long increments, double increment_us) {
  double waits[kMost], totals[kMost];
  int n = iterations(increment_us * (double)increments), answer = 0;
  for (int i = -2; i < n; i++) {
    if (rank == 0) {
      MPI_Send(buffer, bytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
      MPI_Recv(&answer, 1, MPI_INT, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      continue;
    }
    MPI_Request request;
    double began = MPI_Wtime();
    MPI_Irecv(buffer, bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
    increment(increments);
    double waiting = MPI_Wtime();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    double ended = MPI_Wtime();
    MPI_Send(&answer, 1, MPI_INT, 0, kTag, MPI_COMM_WORLD);
    if (i < 0) continue;
    waits[i] = (ended - waiting) * 1e6;
    totals[i] = (ended - began) * 1e6;
  }
  if (rank != 1) return;
  point("wait-time", bytes, median(waits, n), "us");
  point("total-receive-time", bytes, median(totals, n), "us");
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long least = argument(argc, argv, "--min", 1024), most = argument(argc, argv, "--max", 4 << 20);
  long increments = argument(argc, argv, "--increments", 0), step = argument(argc, argv, "--step", 2);
  char *buffer = touched((size_t)most);
  /* Both sides at once, as later. */
  double increment_us = both_work(buffer, 0, rank, -200000, 21).total / 200000;
  for (long bytes = least; bytes <= most; bytes *= step) {
    if (increments != 0) figure_4_9(buffer, (int)bytes, rank, increments, increment_us);
    else fixed_work(buffer, (int)bytes, rank, increment_us);
  }
  free(buffer);
  MPI_Finalize();
  return 0;
}
