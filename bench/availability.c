/* Application availability and overhead by the post-work-wait method (Doerfler and Brightwell, "Measuring MPI Send and
 * Receive Overhead and Application Availability in High Performance Network Interfaces", EuroPVM/MPI 2006; the Sandia
 * benchmark of TupleQ's Figure 5), ranks 0 (works) and 1 (supports).
 *
 * An iteration posts a nonblocking send (or receive), works, waits; the other rank is there all the time. `base` is an
 * iteration without work. The work is made longer until the iteration takes half as long again as base: then what the
 * iteration takes beyond the work is the overhead, what could not be hidden, and
 *
 *   availability = 1 - overhead / base.
 *
 * Series: availability-send, overhead-send, availability-receive, overhead-receive; x: bytes. */
#include "bench.h"

#define ROUNDS 9
#define WARM 12

enum side { SEND, RECEIVE };

/* Median of the worker's time, us. */
static double iteration(enum side side, int rank, char *data, int bytes, long loops) {
  double times[ROUNDS];
  for (int i = -WARM; i < ROUNDS; i++) {
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (loops != 0 && i < 0) continue; /* warm since base */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
      if (side == SEND) {
        MPI_Irecv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
      }
      continue;
    }
    if (side == SEND) MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double began = MPI_Wtime();
    if (side == SEND) {
      MPI_Isend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[0]);
    } else {
      MPI_Irecv(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[1]); /* posted: it may come */
    }
    if (loops != 0) work(loops);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (i >= 0) times[i] = (MPI_Wtime() - began) * 1e6;
  }
  double result = rank == 0 ? median(times, ROUNDS) : 0;
  MPI_Bcast(&result, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return result;
}

static double work_us(int rank, long loops) {
  double times[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    double began = MPI_Wtime();
    work(loops);
    times[i] = (MPI_Wtime() - began) * 1e6;
  }
  double result = rank == 0 ? median(times, ROUNDS) : 0;
  MPI_Bcast(&result, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return result;
}

static void measure(enum side side, int rank, char *data, int bytes, double per_loop) {
  double base = iteration(side, rank, data, bytes, 0), took = base, worked = 0;
  for (double wanted = base / 2; took < 1.5 * base; wanted *= 1.1) {
    long loops = (long)(wanted / per_loop);
    if (loops < 1) loops = 1;
    worked = work_us(rank, loops);
    took = iteration(side, rank, data, bytes, loops);
  }
  if (rank != 0) return;
  double overhead = took - worked, available = 100 * (1 - overhead / base);
  point(side == SEND ? "availability-send" : "availability-receive", bytes, available, "%");
  point(side == SEND ? "overhead-send" : "overhead-receive", bytes, overhead, "us");
  point(side == SEND ? "base-send" : "base-receive", bytes, base, "us");
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long most = argument(argc, argv, "--max", 1 << 20);
  char *data = touched((size_t)most);
  double per_loop = work_us(rank, 1000000) / 1e6;
  for (int bytes = 1; bytes <= most; bytes *= 4) {
    measure(SEND, rank, data, bytes, per_loop);
    measure(RECEIVE, rank, data, bytes, per_loop);
  }
  free(data);
  MPI_Finalize();
  return 0;
}
