/* One-sided communication between two ranks: one operation and its completion, microseconds. The target waits in
 * MPI_Barrier, so it is inside MPI. --created 1: windows made by MPI_Win_create instead of MPI_Win_allocate.
 * --only NAME: one series (put, get, fetch_and_op, compare_and_swap, accumulate: lock_all, flush after each; lock: of a
 * put; fence, pscw: with a put). */
#include "bench.h"

#define MOST (1 << 20)

static MPI_Win window;
static char *memory, *local;
static int rank;
static const int zero = 0;
static MPI_Group target_group, origin_group;

static void put(int bytes) {
  MPI_Put(local, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
  MPI_Win_flush(1, window);
}
static void get(int bytes) {
  MPI_Get(local, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
  MPI_Win_flush(1, window);
}
static void fetch(int bytes) {
  (void)bytes;
  MPI_Fetch_and_op(local, local + 8, MPI_LONG, 1, 0, MPI_SUM, window);
  MPI_Win_flush(1, window);
}
static void swap_(int bytes) {
  (void)bytes;
  MPI_Compare_and_swap(local, local + 8, local + 16, MPI_LONG, 1, 0, window);
  MPI_Win_flush(1, window);
}
static void accumulate(int bytes) {
  MPI_Accumulate(local, bytes / 8, MPI_DOUBLE, 1, 0, bytes / 8, MPI_DOUBLE, MPI_SUM, window);
  MPI_Win_flush(1, window);
}
static void lock_put(int bytes) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
  MPI_Put(local, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
  MPI_Win_unlock(1, window);
}
static void fence(int bytes) {
  if (rank == 0) MPI_Put(local, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
  MPI_Win_fence(zero, window);
}
static void pscw(int bytes) {
  if (rank == 0) {
    MPI_Win_start(target_group, 0, window);
    MPI_Put(local, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
    MPI_Win_complete(window);
  } else {
    MPI_Win_post(origin_group, 0, window);
    MPI_Win_wait(window);
  }
}

static double batch(void (*operation)(int), int bytes, int n) {
  double began = MPI_Wtime();
  for (int i = 0; i < n; i++) operation(bytes);
  return (MPI_Wtime() - began) * 1e6 / n;
}

/* `both`: the target takes part. */
static void measure(const char *series, void (*operation)(int), int bytes, int both, int passive) {
  double values[BATCHES];
  const int active = rank == 0 || (rank == 1 && both);
  if (passive && rank == 0) MPI_Win_lock_all(0, window);
  values[0] = active ? batch(operation, bytes, 20) : 0;
  const int n = repetitions(values[0], 3000);
  for (int i = 0; i < BATCHES; i++) values[i] = active ? batch(operation, bytes, n) : 0;
  if (passive && rank == 0) MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) point(series, bytes, median(values, BATCHES), "us");
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char *only = NULL;
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], "--only") == 0) only = argv[i + 1];
  }
  local = touched(MOST);
  memset(local, 0, MOST);
  char *own = NULL;
  if (argument(argc, argv, "--created", 0)) {
    memory = own = touched(MOST);
    MPI_Win_create(memory, MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  } else {
    MPI_Win_allocate(MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  }
  memset(memory, 0, MOST);
  MPI_Group world;
  const int ranks[2] = {0, 1};
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, ranks + 1, &target_group);
  MPI_Group_incl(world, 1, ranks, &origin_group);
  MPI_Barrier(MPI_COMM_WORLD);
  static const struct {
    const char *name;
    void (*operation)(int);
    int both, passive, least, most;
  } kSeries[] = {{"put", put, 0, 1, 8, MOST},
                 {"get", get, 0, 1, 8, MOST},
                 {"fetch_and_op", fetch, 0, 1, 8, 8},
                 {"compare_and_swap", swap_, 0, 1, 8, 8},
                 {"accumulate", accumulate, 0, 1, 16, 65536},
                 {"lock", lock_put, 0, 0, 8, 8},
                 {"fence", fence, 1, 0, 8, 8},
                 {"pscw", pscw, 1, 0, 8, 8}};
  for (size_t i = 0; i < sizeof kSeries / sizeof *kSeries; i++) {
    if (only && strcmp(only, kSeries[i].name) != 0) continue;
    if (strcmp(kSeries[i].name, "fence") == 0) MPI_Win_fence(0, window);
    for (int bytes = kSeries[i].least; bytes <= kSeries[i].most; bytes *= 8)
      measure(kSeries[i].name, kSeries[i].operation, bytes, kSeries[i].both, kSeries[i].passive);
    if (strcmp(kSeries[i].name, "fence") == 0) MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
  }
  MPI_Group_free(&world);
  MPI_Group_free(&target_group);
  MPI_Group_free(&origin_group);
  MPI_Win_free(&window);
  free(own);
  free(local);
  MPI_Finalize();
  return 0;
}
