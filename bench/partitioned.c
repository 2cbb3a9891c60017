/* Partitioned communication beside a persistent send of the same bytes, 16 partitions, rank 0 to rank 1:
 *
 *   start   x: bytes; us from MPI_Start to the end of a round trip, all partitions ready at once
 *   late    x: bytes; perceived bandwidth in GB/s when the last partition is 200 us late: all bytes, over the time from
 *           just before the last MPI_Pready (persistent: MPI_Start) to the receiver's end
 *
 * Series *-part by MPI_Psend_init, where the MPI has it, *-send by MPI_Send_init. The clocks are CLOCK_MONOTONIC, so
 * the ranks must run on one machine. */
#include <time.h>
#include "bench.h"

#define PARTITIONS 16
#define ROUNDS 101

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void make(int partitioned, int rank, char *data, long bytes, MPI_Request *request) {
#if MPI_VERSION >= 4
  if (partitioned) {
    if (rank == 0)
      MPI_Psend_init(data, PARTITIONS, bytes / PARTITIONS, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_INFO_NULL, request);
    else MPI_Precv_init(data, PARTITIONS, bytes / PARTITIONS, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_INFO_NULL, request);
    return;
  }
#endif
  if (rank == 0) MPI_Send_init(data, (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, request);
  else MPI_Recv_init(data, (int)bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, request);
}

static void ready(int partitioned, int first, int last, MPI_Request request) {
#if MPI_VERSION >= 4
  if (partitioned) MPI_Pready_range(first, last, request);
#endif
}

static void measure(int partitioned, int rank, char *data, long bytes) {
  double start[ROUNDS], late[ROUNDS];
  MPI_Request request;
  make(partitioned, rank, data, bytes, &request);
  for (int delayed = 0; delayed < 2; delayed++) {
    for (int i = 0; i < ROUNDS; i++) {
      double began = 0, other = 0;
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == 0) {
        double entered = now_us();
        if (partitioned || !delayed) MPI_Start(&request);
        if (delayed) {
          ready(partitioned, 0, PARTITIONS - 2, request);
          for (double end = now_us() + 200; now_us() < end;) work(100);
        }
        began = now_us();
        if (!partitioned && delayed) MPI_Start(&request);
        ready(partitioned, delayed ? PARTITIONS - 1 : 0, PARTITIONS - 1, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Recv(&other, 1, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        start[i] = now_us() - entered;
        late[i] = (double)bytes / (other - began) * 1e-3;
      } else {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        other = now_us();
        MPI_Send(&other, 1, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD);
      }
    }
    if (rank != 0) continue;
    if (delayed) point(partitioned ? "late-part" : "late-send", bytes, median(late, ROUNDS), "GB/s");
    else point(partitioned ? "start-part" : "start-send", bytes, median(start, ROUNDS), "us");
  }
  MPI_Request_free(&request);
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char *data = touched(4 << 20);
  for (long bytes = 1024; bytes <= 4 << 20; bytes *= 4) {
    measure(0, rank, data, bytes);
#if MPI_VERSION >= 4
    measure(1, rank, data, bytes);
#endif
  }
  free(data);
  MPI_Finalize();
  return 0;
}
