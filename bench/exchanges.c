/* Exchanges by plain messages, as programs write them without collectives: `alltoall` (every process with every
 * other), `halo` (the four neighbours of a periodic grid), `manytoone` (all to process 0, which answers). The slowest
 * rank's mean over --rounds (20) exchanges, after --warm (20) others; messages of --bytes (512). On a simulated machine
 * this shows what channels cost where the ranks of a node share an adapter: --idle US of further exchanges before the
 * measured part let a selection of channels take place (TERN_RDMA_STATISTICS_MS). */
#include "bench.h"

static int rank, size, columns;
static char *in, *out;
static MPI_Request *requests;

static int alltoall(int bytes) {
  int n = 0;
  for (int s = 1; s < size; s++) {
    const int from = (rank - s + size) % size;
    MPI_Irecv(in + (size_t)from * bytes, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, &requests[n++]);
  }
  for (int s = 1; s < size; s++) {
    const int to = (rank + s) % size;
    MPI_Isend(out + (size_t)to * bytes, bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD, &requests[n++]);
  }
  return n;
}

static int halo(int bytes) {
  const int rows = size / columns, row = rank / columns, column = rank % columns;
  const int peers[4] = {(row + 1) % rows * columns + column, (row + rows - 1) % rows * columns + column,
                        row * columns + (column + 1) % columns, row * columns + (column + columns - 1) % columns};
  int n = 0;
  for (int i = 0; i < 4; i++)
    MPI_Irecv(in + (size_t)i * bytes, bytes, MPI_BYTE, peers[i], i, MPI_COMM_WORLD, &requests[n++]);
  for (int i = 0; i < 4; i++)
    MPI_Isend(out + (size_t)i * bytes, bytes, MPI_BYTE, peers[i], i ^ 1, MPI_COMM_WORLD, &requests[n++]);
  return n;
}

static int manytoone(int bytes) {
  int n = 0;
  for (int other = 1; rank == 0 && other < size; other++)
    MPI_Irecv(in + (size_t)other * bytes, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[n++]);
  if (rank != 0) {
    MPI_Irecv(in, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[n++]);
    MPI_Isend(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[n++]);
    return n;
  }
  MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
  for (n = 0; n < size - 1; n++) MPI_Isend(out, bytes, MPI_BYTE, n + 1, 2, MPI_COMM_WORLD, &requests[n]);
  return n;
}

static const struct {
  const char *name;
  int (*post)(int bytes);
} all[] = {{"alltoall", alltoall}, {"halo", halo}, {"manytoone", manytoone}};

static void run(int (*post)(int), int bytes, long rounds) {
  for (long i = 0; i < rounds; i++) MPI_Waitall(post(bytes), requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long bytes = argument(argc, argv, "--bytes", 512), rounds = argument(argc, argv, "--rounds", 20);
  const long warm = argument(argc, argv, "--warm", 20), idle_us = argument(argc, argv, "--idle", 0);
  const char *only = NULL;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--only")) only = argv[i + 1];
  for (columns = 1; (columns + 1) * (columns + 1) <= size; columns++) continue;
  while (size % columns) columns--;
  in = touched((size_t)bytes * (size_t)(size < 4 ? 4 : size));
  out = touched((size_t)bytes * (size_t)(size < 4 ? 4 : size));
  requests = malloc(sizeof *requests * (size_t)(2 * size + 8));
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    if (only && strcmp(only, all[k].name)) continue;
    run(all[k].post, (int)bytes, warm);
    const double until = MPI_Wtime() + (double)idle_us * 1e-6;
    for (int more = idle_us > 0; more;) {
      run(all[k].post, (int)bytes, 1);
      more = MPI_Wtime() < until;
      MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    run(all[k].post, (int)bytes, rounds);
    double mine = (MPI_Wtime() - began) * 1e6 / (double)rounds, slowest = 0;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) point(all[k].name, bytes, slowest, "us");
  }
  free(in);
  free(out);
  free(requests);
  MPI_Finalize();
  return 0;
}
