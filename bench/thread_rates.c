/* MPI_THREAD_MULTIPLE: what a second thread adds. Every thread has a communicator of its own; threads are plain
 * pthreads that look at the clock every 200 messages. The rate is that of all threads of rank 0 together, x how many
 * there are:
 *
 *   self        MPI_Send and MPI_Recv of 8 bytes to the own rank
 *   self_one    the same on one communicator, every thread with its own tag
 *   self_tags   the same; the communicator was made with mpi_assert_no_any_tag
 *   pair        with 2 ranks: 16 messages of 8 bytes each way, then MPI_Waitall
 *   pair_one, pair_tags   as self_one, self_tags
 *   put         16 times MPI_Put of 8 bytes to the other rank, or the own one, then MPI_Win_flush; a window a thread
 *
 * --bound 1: thread i runs on the i-th core of the rank's, modulo their number. --cores N: on the first N of them only.
 * --single 1: one thread, MPI_THREAD_FUNNELED.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "bench.h"

enum { kMaxThreads = 16, kWindow = 16, kBetweenLooks = 200 };

static MPI_Comm comms[kMaxThreads], promised;
static int rank, partner, bound, cores;
static double seconds;
static pthread_barrier_t turn;
static void (*kind)(int me, int n);

static struct {
  double rate;
  char pad[120];
} results[kMaxThreads];

static void to_self(MPI_Comm comm, int tag, int n) {
  char out[8] = {0}, in[8];
  for (int i = 0; i < n; i++) {
    MPI_Send(out, 8, MPI_BYTE, rank, tag, comm);
    MPI_Recv(in, 8, MPI_BYTE, rank, tag, comm, MPI_STATUS_IGNORE);
  }
}
static void self(int me, int n) { to_self(comms[me], 1, n); }
static void self_one(int me, int n) { to_self(comms[0], me, n); }
static void self_tags(int me, int n) { to_self(promised, me, n); }

static void exchange(MPI_Comm comm, int tag, int n) {
  MPI_Request requests[2 * kWindow];
  char out[8 * kWindow] = {0}, in[8 * kWindow];
  for (int done = 0; done < n; done += kWindow) {
    for (int i = 0; i < kWindow; i++) MPI_Irecv(in + 8 * i, 8, MPI_BYTE, partner, tag, comm, &requests[i]);
    for (int i = 0; i < kWindow; i++)
      MPI_Isend(out + 8 * i, 8, MPI_BYTE, partner, tag, comm, &requests[kWindow + i]);
    MPI_Waitall(2 * kWindow, requests, MPI_STATUSES_IGNORE);
  }
}

static void pair(int me, int n) { exchange(comms[me], 1, n); }
static void pair_one(int me, int n) { exchange(comms[0], me, n); }
static void pair_tags(int me, int n) { exchange(promised, me, n); }

static MPI_Win windows[kMaxThreads];
static void put(int me, int n) {
  char out[8 * kWindow] = {0};
  for (int done = 0; done < n; done += kWindow) {
    for (int i = 0; i < kWindow; i++) MPI_Put(out + 8 * i, 8, MPI_BYTE, partner, 8 * i, 8, MPI_BYTE, windows[me]);
    MPI_Win_flush(partner, windows[me]);
  }
}

/* Not for longer than they are used: a library may serve them all the time. */
static void open_windows(int threads) {
  void *memory;
  for (int i = 0; i < threads; i++) {
    MPI_Win_allocate(8 * kWindow, 1, MPI_INFO_NULL, comms[i], &memory, &windows[i]);
    MPI_Win_lock_all(0, windows[i]);
  }
}
static void close_windows(int threads) {
  for (int i = 0; i < threads; i++) {
    MPI_Win_unlock_all(windows[i]);
    MPI_Win_free(&windows[i]);
  }
}

static void bind_thread(int me) {
  cpu_set_t all, one;
  int count, wanted, at = -1;
  if (!bound && !cores) return;
  sched_getaffinity(0, sizeof all, &all);
  count = CPU_COUNT(&all);
  if (cores && cores < count) count = cores;
  wanted = me % count;
  CPU_ZERO(&one);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE && at < 0; cpu++) {
    if (!CPU_ISSET(cpu, &all)) continue;
    if (bound ? seen == wanted : seen < count) CPU_SET(cpu, &one);
    if (++seen == (bound ? wanted + 1 : count)) at = cpu;
  }
  pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

/* Until the time is over on rank 0's side: a pair agrees on that by its messages, so that both make as many. */
static void *serve(void *argument) {
  int me = (int)(long)argument, go = 1;
  bind_thread(me);
  pthread_barrier_wait(&turn);
  double began = MPI_Wtime(), now = began;
  long messages = 0;
  while (go) {
    kind(me, kBetweenLooks);
    messages += kBetweenLooks;
    now = MPI_Wtime();
    go = now - began < seconds;
    if (partner != rank) {
      if (rank == 0) MPI_Send(&go, 1, MPI_INT, partner, kMaxThreads, comms[me]);
      else MPI_Recv(&go, 1, MPI_INT, partner, kMaxThreads, comms[me], MPI_STATUS_IGNORE);
    }
  }
  results[me].rate = (double)messages / (now - began) * 1e-6;
  return NULL;
}

static double run(int threads) {
  pthread_t all[kMaxThreads];
  double sum = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  pthread_barrier_init(&turn, NULL, (unsigned)threads);
  for (long i = 1; i < threads; i++) pthread_create(&all[i], NULL, serve, (void *)i);
  if (bound || cores) { /* a thread of its own, so that the first one stays where it is */
    pthread_create(&all[0], NULL, serve, (void *)0L);
    pthread_join(all[0], NULL);
  } else {
    serve((void *)0L);
  }
  for (int i = 1; i < threads; i++) pthread_join(all[i], NULL);
  pthread_barrier_destroy(&turn);
  for (int i = 0; i < threads; i++) sum += results[i].rate;
  return sum;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*kind)(int me, int n);
    int ranks; /* 0: any number */
  } series[] = {{"self", self, 1}, {"self_one", self_one, 1}, {"self_tags", self_tags, 1}, {"pair", pair, 2},
                {"pair_one", pair_one, 2}, {"pair_tags", pair_tags, 2}, {"put", put, 0}};
  int provided, size, single = (int)argument(argc, argv, "--single", 0), level;
  int most = single ? 1 : (int)argument(argc, argv, "--max", 4);
  int batches = (int)argument(argc, argv, "--batches", 5);
  bound = (int)argument(argc, argv, "--bound", 0);
  cores = (int)argument(argc, argv, "--cores", 0);
  seconds = (double)argument(argc, argv, "--ms", 100) * 1e-3;
  level = single ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE;
  MPI_Init_thread(&argc, &argv, level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (provided < level || size > 2 || most > kMaxThreads || batches > BATCHES) MPI_Abort(MPI_COMM_WORLD, 1);
  partner = size == 2 ? !rank : rank;
  for (int i = 0; i < most; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &promised);
  MPI_Info_free(&info);
  for (int threads = 1; threads <= most; threads *= 2) {
    for (size_t s = 0; s < sizeof series / sizeof *series; s++) {
      double values[BATCHES];
      kind = series[s].kind;
      if (series[s].ranks && series[s].ranks != size) continue;
      if (kind == put) open_windows(threads);
      run(threads);
      for (int i = 0; i < batches; i++) values[i] = run(threads);
      if (rank == 0) point(series[s].name, threads, median(values, batches), "M/s");
      if (kind == put) close_windows(threads);
    }
  }
  for (int i = 0; i < most; i++) MPI_Comm_free(&comms[i]);
  MPI_Comm_free(&promised);
  MPI_Finalize();
  return 0;
}
