/* Time of one collective, in a loop, by size: the slowest rank's median. --only NAME chooses one. Sizes are --min bytes
 * (8) times powers of --step (8), to --max. */
#include "bench.h"

static int size, rank;
static char *a, *b;

static void run_barrier(int n) { (void)n, MPI_Barrier(MPI_COMM_WORLD); }
static void run_bcast(int n) { MPI_Bcast(a, n, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void run_reduce(int n) { MPI_Reduce(a, b, n / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); }
static void run_allreduce(int n) { MPI_Allreduce(a, b, n / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void run_gather(int n) { MPI_Gather(a, n, MPI_BYTE, b, n, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void run_scatter(int n) { MPI_Scatter(b, n, MPI_BYTE, a, n, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void run_allgather(int n) { MPI_Allgather(a, n, MPI_BYTE, b, n, MPI_BYTE, MPI_COMM_WORLD); }
static void run_alltoall(int n) { MPI_Alltoall(a, n, MPI_BYTE, b, n, MPI_BYTE, MPI_COMM_WORLD); }
static void run_reduce_scatter(int n) { MPI_Reduce_scatter_block(a, b, n / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void run_scan(int n) { MPI_Scan(a, b, n / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }

static const struct {
  const char *name;
  void (*run)(int);
  int sized;
} all[] = {{"barrier", run_barrier, 0},
           {"bcast", run_bcast, 1},
           {"reduce", run_reduce, 1},
           {"allreduce", run_allreduce, 1},
           {"gather", run_gather, 1},
           {"scatter", run_scatter, 1},
           {"allgather", run_allgather, 1},
           {"alltoall", run_alltoall, 1},
           {"reduce_scatter", run_reduce_scatter, 1},
           {"scan", run_scan, 1}};

static double batch(void (*run)(int), int bytes, int n) {
  double began = MPI_Wtime();
  for (int i = 0; i < n; i++) run(bytes);
  return (MPI_Wtime() - began) * 1e6 / n;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long most = argument(argc, argv, "--max", 1 << 20);
  long least = argument(argc, argv, "--min", 8), step = argument(argc, argv, "--step", 8);
  if (least < 8 || step < 2) {
    fprintf(stderr, "collectives: --min must be 8 or more, --step 2 or more\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const char *only = NULL;
  for (int i = 1; i + 1 < argc; i++) {
    if (!strcmp(argv[i], "--only")) only = argv[i + 1];
  }
  a = touched((size_t)most * (size_t)size);
  b = touched((size_t)most * (size_t)size);
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    if (only && strcmp(only, all[k].name)) continue;
    for (long bytes = all[k].sized ? least : 0; bytes <= (all[k].sized ? most : 0); bytes = bytes ? bytes * step : 1) {
      double values[BATCHES];
      batch(all[k].run, (int)bytes, 5);
      values[0] = batch(all[k].run, (int)bytes, 5);
      int n = repetitions(values[0], 3000);
      for (int i = 0; i < BATCHES; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        values[i] = batch(all[k].run, (int)bytes, n);
      }
      double mine = median(values, BATCHES), slowest = 0;
      MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
      if (rank == 0) point(all[k].name, bytes, slowest, "us");
    }
  }
  free(a);
  free(b);
  MPI_Finalize();
  return 0;
}
