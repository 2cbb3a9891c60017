/* Application availability and overhead by the post-work-wait method, loop by loop as Sandia's benchmark has it
 * (Doerfler and Brightwell, "Measuring MPI Send and Receive Overhead and Application Availability in High Performance
 * Network Interfaces", EuroPVM/MPI 2006; what Figure 5 of TupleQ was measured with), ranks 0 (works) and 1 (supports).
 *
 *   send                                     receive
 *   0: barrier, Isend, work, Wait            0: Irecv, barrier, work, Wait
 *   1: Irecv, barrier, Wait                  1: barrier, Send
 *
 * The work is doubled until an iteration takes half as long again as `base`: the mean of the iterations before, whose
 * time did not grow by more than 2 %. What the last iteration takes beyond the same loop without the message (barrier
 * and work) is the overhead, what the message costs its rank, and
 *
 *   availability = 1 - overhead / base.
 *
 * Series: availability-send, overhead-send, base-send, and -receive; x: bytes. */
#include "bench.h"

#define KNEE 1.5  /* an iteration so much longer than base has hidden all that can be hidden */
#define FLAT 1.02 /* one that is not longer than this counts for base */

#ifdef BENCH_SIMULATED
#define ROUNDS 1 /* virtual time does not scatter */
#define ITERATIONS 24
#else
#define ROUNDS 7
#define ITERATIONS 100
#endif

enum side { SEND, RECEIVE };

static void works(enum side side, int message, char* data, int bytes, long loops) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (message && side == RECEIVE) MPI_Irecv(data, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  if (message && side == SEND) MPI_Isend(data, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request);
  if (loops != 0) work(loops);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void supports(enum side side, int message, char* data, int bytes) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (message && side == SEND) MPI_Irecv(data, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  if (message && side == RECEIVE) MPI_Send(data, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* An iteration's time at rank 0, us: the mean of a loop, the median of some loops. The same on every rank. */
static double iteration_us(enum side side, int message, int rank, char* data, int bytes, long loops, int iterations) {
  double times[ROUNDS];
  for (int round = 0; round < ROUNDS; round++) {
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int i = 0; i < iterations; i++) {
      if (rank == 0) works(side, message, data, bytes, loops);
      else supports(side, message, data, bytes);
    }
    times[round] = (MPI_Wtime() - began) * 1e6 / iterations;
  }
  double result = median(times, ROUNDS);
  MPI_Bcast(&result, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return result;
}

static void measure(enum side side, int rank, char* data, int bytes, double per_loop) {
  int iterations = bytes < 65536 ? ITERATIONS : ITERATIONS / 4;
  double took = iteration_us(side, 1, rank, data, bytes, 0, iterations); /* queues are made, memory is registered */
  took = iteration_us(side, 1, rank, data, bytes, 0, iterations);
  double base = took, sum = took;
  long loops = (long)(base / 16 / per_loop) + 1;
  for (int flat = 1;; loops *= 2) {
    took = iteration_us(side, 1, rank, data, bytes, loops, iterations);
    if (took > KNEE * base) break;
    if (took < FLAT * base) base = (sum += took) / ++flat;
  }
  double worked = iteration_us(side, 0, rank, data, bytes, loops, iterations);
  if (rank != 0) return;
  double overhead = took - worked, available = 100 * (1 - overhead / base);
  point(side == SEND ? "availability-send" : "availability-receive", bytes, available, "percent");
  point(side == SEND ? "overhead-send" : "overhead-receive", bytes, overhead, "us");
  point(side == SEND ? "base-send" : "base-receive", bytes, base, "us");
}

/* Of one loop of work, us; rank 0's. */
static double loop_us(void) {
  double times[9];
  for (int i = 0; i < 9; i++) {
    double began = MPI_Wtime();
    work(1000000);
    times[i] = (MPI_Wtime() - began);
  }
  double result = median(times, 9);
  MPI_Bcast(&result, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return result;
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long most = argument(argc, argv, "--max", 1 << 20);
  char* data = touched((size_t)most);
  double per_loop = loop_us();
  for (int bytes = 1; bytes <= most; bytes *= 4) {
    measure(SEND, rank, data, bytes, per_loop);
    measure(RECEIVE, rank, data, bytes, per_loop);
  }
  free(data);
  MPI_Finalize();
  return 0;
}
