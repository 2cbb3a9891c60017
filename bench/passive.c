/* How long an operation and its completion wait for a target that computes outside MPI, beside one that waits inside
 * MPI (in MPI_Barrier). Rank 0 is the origin, rank 1 the target. Between two operations the origin computes for
 * --pause us (200), so that whatever serves the target has gone to sleep. --created 1: windows made by MPI_Win_create
 * instead of MPI_Win_allocate. --ms: how long the target computes for each series (300).
 *
 *   waiting, computing   us  the median with such a target
 *   delay                us  the difference of the medians
 *   delay-99             us  the 99th of 100 operations, less the median with a target that waits
 *
 * The names of the series begin with the operation: put, get, fetch_and_op, accumulate (lock_all, flush after each),
 * lock (MPI_Win_lock, put, MPI_Win_unlock). x: bytes. */
#include "delay.h"

enum { kLarge = 65536 };

static MPI_Win window;
static char *memory, *local;
static int rank;
static const int target = 1;

static void put(int bytes) {
  MPI_Put(local, bytes, MPI_BYTE, target, 0, bytes, MPI_BYTE, window);
  MPI_Win_flush(target, window);
}
static void get(int bytes) {
  MPI_Get(local, bytes, MPI_BYTE, target, 0, bytes, MPI_BYTE, window);
  MPI_Win_flush(target, window);
}
static void fetch(int bytes) {
  (void)bytes;
  MPI_Fetch_and_op(local, local + 8, MPI_LONG, target, 0, MPI_SUM, window);
  MPI_Win_flush(target, window);
}
static void accumulate(int bytes) {
  MPI_Accumulate(local, bytes / 8, MPI_DOUBLE, target, 0, bytes / 8, MPI_DOUBLE, MPI_SUM, window);
  MPI_Win_flush(target, window);
}
static void lock_put(int bytes) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
  MPI_Put(local, bytes, MPI_BYTE, target, 0, bytes, MPI_BYTE, window);
  MPI_Win_unlock(target, window);
}

/* Fills times, in order; the number of them. The first one counts, too: it may be the only one that meets a target that
 * computes. The origin stops early, so that the target computes until the last one. */
static int rounds(void (*operation)(int), int bytes, int locked, double ms, double pause_us, double* times) {
  int n = 0;
  const double end = now_us() + 0.8 * ms * 1e3;
  if (!locked) MPI_Win_lock_all(0, window);
  while (n < kMost && (n == 0 || now_us() < end)) {
    compute_until(now_us() + pause_us);
    const double began = now_us();
    operation(bytes);
    times[n++] = now_us() - began;
  }
  if (!locked) MPI_Win_unlock_all(window);
  qsort(times, (size_t)n, sizeof *times, by_value);
  return n;
}

static void measure(const char* name, void (*operation)(int), int bytes, int locked, double ms, double pause_us) {
  static double times[2][kMost];
  int count[2] = {0, 0};
  for (int computes = 0; computes < 2; computes++) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) count[computes] = rounds(operation, bytes, locked, ms, pause_us, times[computes]);
    else if (rank == target && computes) compute_until(now_us() + ms * 1e3);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank != 0) return;
  point_delays(name, bytes, times, count);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double ms = (double)argument(argc, argv, "--ms", 300), pause_us = (double)argument(argc, argv, "--pause", 200);
  char* own = NULL;
  local = touched(kLarge);
  memset(local, 0, kLarge);
  if (argument(argc, argv, "--created", 0)) {
    memory = own = touched(kLarge);
    MPI_Win_create(memory, kLarge, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  } else {
    MPI_Win_allocate(kLarge, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  }
  memset(memory, 0, kLarge);
  static const struct {
    const char* name;
    void (*operation)(int);
    int bytes, locked;
  } kSeries[] = {{"put", put, 8, 0},      {"put", put, kLarge, 0},       {"get", get, 8, 0},
                 {"get", get, kLarge, 0}, {"fetch_and_op", fetch, 8, 0}, {"accumulate", accumulate, 8192, 0},
                 {"lock", lock_put, 8, 1}};
  for (size_t i = 0; i < sizeof kSeries / sizeof *kSeries; i++)
    measure(kSeries[i].name, kSeries[i].operation, kSeries[i].bytes, kSeries[i].locked, ms, pause_us);
  MPI_Win_free(&window);
  free(own);
  free(local);
  MPI_Finalize();
  return 0;
}
