/* MPI_THREAD_MULTIPLE: what several threads of a rank that communicate at the same time cost one another. Ranks work in
 * pairs, thread i of one with thread i of the other. The time is per exchange and thread, x how many threads take part:
 *
 *   comms       ping-pong of 8 bytes, every thread on its own communicator
 *   tags        the same on one communicator, every thread with its own tag
 *   large       ping-pong of 64 KiB
 *   test        ping-pong of 8 bytes with MPI_Irecv and MPI_Test
 *   window      16 messages of 8 bytes each way, then MPI_Waitall
 *   allreduce   of 8 bytes, every thread on its own communicator of all ranks
 *   waiters     ping-pong of 8 bytes by one thread while x others wait in MPI_Recv
 */
#include <pthread.h>

#include "bench.h"

enum { kMaxThreads = 16, kWindow = 16, kLarge = 65536 };

static MPI_Comm comms[kMaxThreads];
static int rank, partner, threads, exchanges;
static void (*kind)(int me, char *out, char *in);
static pthread_barrier_t turn;

static void ping_pong(MPI_Comm comm, int tag, int bytes, char *out, char *in) {
  if (rank < partner) {
    MPI_Send(out, bytes, MPI_BYTE, partner, tag, comm);
    MPI_Recv(in, bytes, MPI_BYTE, partner, tag, comm, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(in, bytes, MPI_BYTE, partner, tag, comm, MPI_STATUS_IGNORE);
    MPI_Send(out, bytes, MPI_BYTE, partner, tag, comm);
  }
}

static void on_comms(int me, char *out, char *in) { ping_pong(comms[me], 1, 8, out, in); }
static void on_tags(int me, char *out, char *in) { ping_pong(MPI_COMM_WORLD, me, 8, out, in); }
static void large(int me, char *out, char *in) { ping_pong(comms[me], 1, kLarge, out, in); }

static void with_test(int me, char *out, char *in) {
  MPI_Request request;
  int here = 0;
  MPI_Irecv(in, 8, MPI_BYTE, partner, 1, comms[me], &request);
  if (rank < partner) MPI_Send(out, 8, MPI_BYTE, partner, 1, comms[me]);
  while (!here) MPI_Test(&request, &here, MPI_STATUS_IGNORE);
  if (rank > partner) MPI_Send(out, 8, MPI_BYTE, partner, 1, comms[me]);
}

static void window(int me, char *out, char *in) {
  MPI_Request requests[2 * kWindow];
  for (int i = 0; i < kWindow; i++) MPI_Irecv(in + 8 * i, 8, MPI_BYTE, partner, 1, comms[me], &requests[i]);
  for (int i = 0; i < kWindow; i++) MPI_Isend(out + 8 * i, 8, MPI_BYTE, partner, 1, comms[me], &requests[kWindow + i]);
  MPI_Waitall(2 * kWindow, requests, MPI_STATUSES_IGNORE);
}

static void allreduce(int me, char *out, char *in) {
  long mine = 1, sum;
  (void)out, (void)in;
  MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, comms[me]);
}

/* Thread 0 alone exchanges; the others wait for its last word, which their rank sends to itself. */
static void beside_waiters(int me, char *out, char *in) { ping_pong(comms[me], 1, 8, out, in); }

static void *serve(void *argument) {
  int me = (int)(long)argument;
  char *out = touched(kLarge), *in = touched(kLarge);
  for (;;) {
    pthread_barrier_wait(&turn);
    if (!kind) break;
    if (kind == beside_waiters && me != 0) {
      MPI_Recv(in, 0, MPI_BYTE, rank, me, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      for (int i = 0; i < exchanges; i++) kind(me, out, in);
      for (int i = 1; i < threads && kind == beside_waiters; i++) MPI_Send(out, 0, MPI_BYTE, rank, i, MPI_COMM_WORLD);
    }
    pthread_barrier_wait(&turn);
  }
  free(out);
  free(in);
  return NULL;
}

/* The time of one exchange, in microseconds. */
static double batch(int n) {
  double began;
  exchanges = n;
  MPI_Barrier(MPI_COMM_WORLD);
  began = MPI_Wtime();
  pthread_barrier_wait(&turn);
  pthread_barrier_wait(&turn);
  return (MPI_Wtime() - began) * 1e6 / n;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*kind)(int me, char *out, char *in);
  } series[] = {{"comms", on_comms}, {"tags", on_tags},        {"large", large},           {"test", with_test},
                {"window", window},  {"allreduce", allreduce}, {"waiters", beside_waiters}};
  int provided, size, most, batches = (int)argument(argc, argv, "--batches", BATCHES);
  const char *only = NULL;
  for (int i = 1; i + 1 < argc; i++) only = strcmp(argv[i], "--only") ? only : argv[i + 1];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  most = (int)argument(argc, argv, "--max", 4);
  if (provided != MPI_THREAD_MULTIPLE || size % 2 || most > kMaxThreads || batches > BATCHES)
    MPI_Abort(MPI_COMM_WORLD, 1);
  partner = rank ^ 1;
  for (int i = 0; i < most; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (threads = 1; threads <= most; threads *= 2) {
    pthread_t all[kMaxThreads];
    pthread_barrier_init(&turn, NULL, (unsigned)threads + 1);
    for (long i = 0; i < threads; i++) pthread_create(&all[i], NULL, serve, (void *)i);
    for (size_t s = 0; s < sizeof series / sizeof *series; s++) {
      double values[BATCHES];
      if (only && strcmp(only, series[s].name)) continue;
      kind = series[s].kind;
      if (kind == beside_waiters && threads == 1) continue;
      batch(5);
      int n = repetitions(batch(20), 20000);
      for (int i = 0; i < batches; i++) values[i] = batch(n);
      if (rank == 0)
        point(series[s].name, kind == beside_waiters ? threads - 1 : threads, median(values, batches), "us");
    }
    kind = NULL;
    pthread_barrier_wait(&turn);
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
    pthread_barrier_destroy(&turn);
  }
  for (int i = 0; i < most; i++) MPI_Comm_free(&comms[i]);
  MPI_Finalize();
  return 0;
}
