/* Partitioned communication beside a persistent send of the same bytes, 16 partitions, rank 0 to rank 1:
 *
 *   start   x: bytes; us from MPI_Start to the end of a round trip, all partitions ready at once
 *   late    x: bytes; perceived bandwidth in GB/s when the last partition is 200 us late: all bytes, over the time from
 *           just before the last MPI_Pready (persistent: MPI_Start) to the receiver's end
 *
 * Series *-part by MPI_Psend_init, where the MPI has it, *-send by MPI_Send_init. The clocks are CLOCK_MONOTONIC, so
 * the ranks must run on one machine.
 *
 * --threads N: instead of these, with MPI_THREAD_MULTIPLE, series ready-N: as start-part, and N threads of rank 0 mark
 * an equal share of the partitions each. From before the threads are let go to the end of the round trip. */
#include <pthread.h>
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

#if MPI_VERSION >= 4
static int threads;
static pthread_barrier_t turn;
static MPI_Request shared;

static void mark_share(int me) {
  for (int i = me * PARTITIONS / threads; i < (me + 1) * PARTITIONS / threads; i++) MPI_Pready(i, shared);
}

static void *marker(void *number) {
  for (int i = 0; i < ROUNDS; i++) {
    pthread_barrier_wait(&turn);
    mark_share((int)(long)number);
    pthread_barrier_wait(&turn);
  }
  return NULL;
}

static void measure_threads(int rank, char *data, long bytes) {
  double times[ROUNDS];
  pthread_t all[PARTITIONS];
  char name[32], answer = 0;
  make(1, rank, data, bytes, &shared);
  pthread_barrier_init(&turn, NULL, (unsigned)threads);
  for (long i = 1; i < threads && rank == 0; i++) pthread_create(&all[i], NULL, marker, (void *)i);
  for (int i = 0; i < ROUNDS; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Start(&shared);
    if (rank == 0) {
      double began = now_us();
      pthread_barrier_wait(&turn);
      mark_share(0);
      pthread_barrier_wait(&turn);
      MPI_Wait(&shared, MPI_STATUS_IGNORE);
      MPI_Recv(&answer, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      times[i] = now_us() - began;
    } else {
      MPI_Wait(&shared, MPI_STATUS_IGNORE);
      MPI_Send(&answer, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }
  }
  for (int i = 1; i < threads && rank == 0; i++) pthread_join(all[i], NULL);
  pthread_barrier_destroy(&turn);
  MPI_Request_free(&shared);
  snprintf(name, sizeof name, "ready-%d", threads);
  if (rank == 0) point(name, bytes, median(times, ROUNDS), "us");
}

static int with_threads(int argc, char **argv) {
  int rank, provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (provided < MPI_THREAD_MULTIPLE || threads > PARTITIONS) MPI_Abort(MPI_COMM_WORLD, 1);
  char *data = touched(4 << 20);
  for (long bytes = 1024; bytes <= 4 << 20; bytes *= 4) measure_threads(rank, data, bytes);
  free(data);
  MPI_Finalize();
  return 0;
}
#endif

int main(int argc, char **argv) {
  int rank;
#if MPI_VERSION >= 4
  threads = (int)argument(argc, argv, "--threads", 0);
  if (threads) return with_threads(argc, argv);
#endif
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
