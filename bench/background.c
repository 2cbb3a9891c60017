/* How much of a transfer passes while both sides compute. Ranks 0 (sends) and 1 (receives); sizes from --min to --max.
 *
 * Default: a fixed amount of work on both sides, twice as long as the transfer takes without work:
 *     both: start the transfer; work; wait
 *   transfer  us     of starting and waiting without work
 *   work      us     of the work alone, on both sides at once
 *   total     us     with the work: the later side
 *   wait      us     in MPI_Wait: the longer one
 *   overlap   percent of the transfer that has passed during the work: (work + transfer - total) / transfer
 *   cpu       percent of a processor that the whole process has used during these, by the kernel's account (mean of
 *             both sides)
 *
 * --increments N: Figure 4.9 of Majumder 2004: the sender is blocking, the receiver does N increments between MPI_Irecv
 * and MPI_Wait and answers with 4 bytes.
 *   wait-time, total-receive-time  us  of the receiver
 *
 * Medians over iterations; an iteration's figure is the larger of both sides'. */
#include "bench.h"

enum { kMax = 201, kTurn = 67, kTag = 5 };

#ifdef BENCH_SIMULATED
static void increment(long increments) { work(increments); }
#else
static void increment(long increments) {
  for (volatile long i = 0; i < increments; i++) {
  }
}
#endif

static double median_of_larger(double *mine, int n) {
  double larger[kMax];
  MPI_Allreduce(mine, larger, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return median(larger, n);
}

/* One exchange beside the work; `increments` < 0: no transfer, that many increments. */
struct Times {
  double total, wait, cpu;
};

static struct Times both_work(char *buffer, int bytes, int rank, long increments) {
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
  struct Times times = {(ended - began) * 1e6, (ended - waiting) * 1e6, cpu_us() - cpu};
  return times;
}

/* The median of n exchanges of one kind. */
static double median_total(char *buffer, int bytes, int rank, long increments, int n) {
  double totals[kMax];
  for (int i = -2; i < n; i++) {
    double total = both_work(buffer, bytes, rank, increments).total;
    if (i >= 0) totals[i] = total;
  }
  return median_of_larger(totals, n);
}

static int iterations(double each_us) {
  int n = (int)(400e3 / each_us);
  return n < 11 ? 11 : n > kMax ? kMax : n;
}

/* The three are measured by turns, so that drift of the machine meets them alike. Before each turn the pattern is
 * repeated for 10 ms: a library may need to learn it. */
static void fixed_work(char *buffer, int bytes, int rank, double increment_us) {
  enum { TRANSFER, WORK, WITH, KINDS };
  double transfer = 0;
  for (int turn = 0; turn < 3; turn++)
    transfer = median_total(buffer, bytes, rank, 0, 21); /* the last: when the library has learned it */
  const int n = iterations(3 * transfer), before = 2 + (int)(10e3 / (3 * transfer));
  /* What an increment takes is known only roughly: it may have been measured while something else ran. */
  const long about = (long)(2 * transfer / increment_us);
  const long increments = (long)(2 * transfer / median_total(buffer, 0, rank, -about, 11) * (double)about);
  const long kinds[KINDS] = {0, -increments, increments};
  double totals[KINDS][kMax], waits[kMax], used = 0, passed = 0;
  for (int i = 0; i < n; i += kTurn) {
    for (int kind = TRANSFER; kind < KINDS; kind++) {
      for (int j = -before; j < kTurn && i + j < n; j++) {
        struct Times times = both_work(buffer, bytes, rank, kinds[kind]);
        if (j < 0) continue;
        totals[kind][i + j] = times.total;
        if (kind != WITH) continue;
        waits[i + j] = times.wait;
        used += times.cpu;
        passed += times.total;
      }
    }
  }
  transfer = median_of_larger(totals[TRANSFER], n);
  double alone = median_of_larger(totals[WORK], n), total = median_of_larger(totals[WITH], n),
         wait = median_of_larger(waits, n);
  double share = 50 * used / passed, cpu;
  MPI_Allreduce(&share, &cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (rank != 0) return;
  point("transfer", bytes, transfer, "us");
  point("work", bytes, alone, "us");
  point("total", bytes, total, "us");
  point("wait", bytes, wait, "us");
  point("overlap", bytes, 100 * (alone + transfer - total) / transfer, "percent");
  point("cpu", bytes, cpu, "percent-of-a-core");
}

static void figure_4_9(char *buffer, int bytes, int rank, long increments, double increment_us) {
  double waits[kMax], totals[kMax];
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
  double increment_us = median_total(buffer, 0, rank, -200000, 21) / 200000;
  for (long bytes = least; bytes <= most; bytes *= step) {
    if (increments != 0) figure_4_9(buffer, (int)bytes, rank, increments, increment_us);
    else fixed_work(buffer, (int)bytes, rank, increment_us);
  }
  free(buffer);
  MPI_Finalize();
  return 0;
}
