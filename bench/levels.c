/* Collectives over several nodes, as the library does them and with two levels written by hand with MPI calls: inside
 * the node, between the first processes of the nodes, inside the node. By size; the slowest rank's mean over --rounds
 * calls (3; up to 4 KiB --small-rounds), after --warm others (5; more where connections are made on demand). Ranks
 * that share cores leave the barrier before it milliseconds apart, each by its own clock: only many calls tell what one
 * takes. --only NAME chooses an operation, --way library|hand one of the two. Bytes are those of one process's block.
 * Placement in blocks, as many ranks on each node. --wire INTERFACE: also the bytes that the nodes send by that
 * interface in one call, all together (with the packets' heads, as the kernel counts them). */
#include "bench.h"

static MPI_Comm node, leaders;
static int rank, size, node_rank, node_size;
static long warm, long_rounds;
static char *a, *b, *c;

static void barrier(int n) { (void)n, MPI_Barrier(MPI_COMM_WORLD); }
static void barrier_by_hand(int n) {
  (void)n, MPI_Barrier(node);
  if (node_rank == 0) MPI_Barrier(leaders);
  MPI_Barrier(node);
}
static void bcast(int n) { MPI_Bcast(a, n, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void bcast_by_hand(int n) {
  if (node_rank == 0) MPI_Bcast(a, n, MPI_BYTE, 0, leaders);
  MPI_Bcast(a, n, MPI_BYTE, 0, node);
}
static void reduce(int n) { MPI_Reduce(a, b, n / 8, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); }
static void reduce_by_hand(int n) {
  MPI_Reduce(a, c, n / 8, MPI_DOUBLE, MPI_SUM, 0, node);
  if (node_rank == 0) MPI_Reduce(c, b, n / 8, MPI_DOUBLE, MPI_SUM, 0, leaders);
}
static void allreduce(int n) { MPI_Allreduce(a, b, n / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void allreduce_by_hand(int n) {
  MPI_Reduce(a, c, n / 8, MPI_DOUBLE, MPI_SUM, 0, node);
  if (node_rank == 0) MPI_Allreduce(c, b, n / 8, MPI_DOUBLE, MPI_SUM, leaders);
  MPI_Bcast(b, n / 8, MPI_DOUBLE, 0, node);
}
static void gather(int n) { MPI_Gather(a, n, MPI_BYTE, b, n, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void gather_by_hand(int n) {
  MPI_Gather(a, n, MPI_BYTE, c, n, MPI_BYTE, 0, node);
  if (node_rank == 0) MPI_Gather(c, n * node_size, MPI_BYTE, b, n * node_size, MPI_BYTE, 0, leaders);
}
static void scatter(int n) { MPI_Scatter(b, n, MPI_BYTE, a, n, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void scatter_by_hand(int n) {
  if (node_rank == 0) MPI_Scatter(b, n * node_size, MPI_BYTE, c, n * node_size, MPI_BYTE, 0, leaders);
  MPI_Scatter(c, n, MPI_BYTE, a, n, MPI_BYTE, 0, node);
}
static void allgather(int n) { MPI_Allgather(a, n, MPI_BYTE, b, n, MPI_BYTE, MPI_COMM_WORLD); }
static void allgather_by_hand(int n) {
  MPI_Gather(a, n, MPI_BYTE, c, n, MPI_BYTE, 0, node);
  if (node_rank == 0) MPI_Allgather(c, n * node_size, MPI_BYTE, b, n * node_size, MPI_BYTE, leaders);
  MPI_Bcast(b, n * size, MPI_BYTE, 0, node);
}
static void alltoall(int n) { MPI_Alltoall(a, n, MPI_BYTE, b, n, MPI_BYTE, MPI_COMM_WORLD); }
static void reduce_scatter(int n) { MPI_Reduce_scatter_block(a, b, n / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
static void reduce_scatter_by_hand(int n) {
  MPI_Reduce(a, c, n / 8 * size, MPI_DOUBLE, MPI_SUM, 0, node);
  if (node_rank == 0) MPI_Reduce_scatter_block(c, b, n / 8 * node_size, MPI_DOUBLE, MPI_SUM, leaders);
  MPI_Scatter(b, n / 8, MPI_DOUBLE, a, n / 8, MPI_DOUBLE, 0, node);
}

static const struct {
  const char *name;
  void (*library)(int);
  void (*by_hand)(int);
  int sized, blocks; /* blocks: the buffers hold one for each process */
} all[] = {{"barrier", barrier, barrier_by_hand, 0, 0},
           {"bcast", bcast, bcast_by_hand, 1, 0},
           {"reduce", reduce, reduce_by_hand, 1, 0},
           {"allreduce", allreduce, allreduce_by_hand, 1, 0},
           {"gather", gather, gather_by_hand, 1, 1},
           {"scatter", scatter, scatter_by_hand, 1, 1},
           {"allgather", allgather, allgather_by_hand, 1, 1},
           {"alltoall", alltoall, NULL, 1, 1},
           {"reduce_scatter", reduce_scatter, reduce_scatter_by_hand, 1, 1}};

static const char *wire; /* NULL: bytes are not counted */

/* Bytes that this node has sent by that interface. */
static double sent(void) {
  char line[512];
  double bytes = 0;
  FILE *file = fopen("/proc/self/net/dev", "r");
  while (file && fgets(line, sizeof line, file)) {
    char name[64];
    double numbers[9];
    if (sscanf(line, " %63[^:]: %lf %lf %lf %lf %lf %lf %lf %lf %lf", name, numbers, numbers + 1, numbers + 2,
               numbers + 3, numbers + 4, numbers + 5, numbers + 6, numbers + 7, numbers + 8) == 10 &&
        !strcmp(name, wire))
      bytes = numbers[8];
  }
  if (file) fclose(file);
  return bytes;
}

static void count_bytes(const char *series, void (*run)(int), int bytes, int rounds) {
  double mine = 0, all = 0;
  char name[80];
  MPI_Barrier(MPI_COMM_WORLD);
  if (node_rank == 0) mine = -sent();
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < rounds; i++) run(bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  if (node_rank == 0) mine += sent();
  MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  snprintf(name, sizeof name, "%s_sent", series);
  if (rank == 0) point(name, bytes, all / rounds, "B");
}

static void measure(const char *name, const char *way, void (*run)(int), int bytes, int rounds) {
  double began, mine, slowest = 0;
  char series[64];
  for (long i = 0; i < warm; i++) run(bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  began = MPI_Wtime();
  for (int i = 0; i < rounds; i++) run(bytes);
  mine = (MPI_Wtime() - began) * 1e6 / rounds;
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  snprintf(series, sizeof series, "%s_%s", name, way);
  if (rank == 0) point(series, bytes, slowest, "us");
  if (wire) count_bytes(series, run, bytes, (int)long_rounds);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &node_rank);
  MPI_Comm_size(node, &node_size);
  MPI_Comm_split(MPI_COMM_WORLD, node_rank ? MPI_UNDEFINED : 0, rank, &leaders);
  long most = argument(argc, argv, "--max", 1 << 20);
  long_rounds = argument(argc, argv, "--rounds", 3);
  long small_rounds = argument(argc, argv, "--small-rounds", long_rounds);
  warm = argument(argc, argv, "--warm", 5);
  long blocks_most = argument(argc, argv, "--blocks-max", 4096);
  const char *only = NULL, *way = NULL;
  for (int i = 1; i + 1 < argc; i++) {
    if (!strcmp(argv[i], "--only")) only = argv[i + 1];
    if (!strcmp(argv[i], "--way")) way = argv[i + 1];
    if (!strcmp(argv[i], "--wire")) wire = argv[i + 1];
  }
  size_t room = (size_t)blocks_most * (size_t)size > (size_t)most ? (size_t)blocks_most * (size_t)size : (size_t)most;
  a = touched(room);
  b = touched(room);
  c = touched(room);
  static const long sizes[] = {8, 64, 512, 1024, 4096, 65536, 1048576};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    if (only && strcmp(only, all[k].name)) continue;
    for (size_t s = 0; s < (all[k].sized ? sizeof sizes / sizeof *sizes : 1); s++) {
      if (sizes[s] > (all[k].blocks ? blocks_most : most)) continue;
      const long rounds = sizes[s] <= 4096 ? small_rounds : long_rounds;
      for (long i = 0; i < warm && s == 0; i++) all[k].library((int)sizes[s]); /* who comes first is not at a loss */
      if (!way || strcmp(way, "hand")) measure(all[k].name, "library", all[k].library, (int)sizes[s], (int)rounds);
      if (all[k].by_hand && (!way || strcmp(way, "library")))
        measure(all[k].name, "hand", all[k].by_hand, (int)sizes[s], (int)rounds);
    }
  }
  free(a);
  free(b);
  free(c);
  MPI_Finalize();
  return 0;
}
