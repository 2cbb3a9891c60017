/* What a peer costs rank 0 in memory: it exchanges 8 bytes with each other rank, one after the other, and looks at its
 * anonymous memory (RssAnon of /proc/self/status) when a quarter and when all are met. Between the two the growth is
 * that of peers alone. The other ranks meet nobody else, so that many of them find room on one host.
 *
 * Series: memory, of rank 0 after all (x: peers; bytes); memory-per-peer (bytes). */
#include "bench.h"

static double anonymous_bytes(void) {
  char line[256];
  long kilobytes = 0;
  FILE *status = fopen("/proc/self/status", "r");
  if (!status) return 0;
  while (fgets(line, sizeof line, status)) {
    if (sscanf(line, "RssAnon: %ld kB", &kilobytes) == 1) break;
  }
  fclose(status);
  return (double)kilobytes * 1024;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long mine = rank, got = -1;
  double early = 0;
  const int quarter = (size + 3) / 4;
  if (rank != 0) {
    MPI_Recv(&got, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&mine, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD);
  }
  for (int peer = 1; rank == 0 && peer < size; peer++) {
    MPI_Send(&mine, 1, MPI_LONG, peer, 1, MPI_COMM_WORLD);
    MPI_Recv(&got, 1, MPI_LONG, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (got != peer) MPI_Abort(MPI_COMM_WORLD, 1);
    if (peer == quarter) early = anonymous_bytes();
  }
  if (rank == 0) {
    double all = anonymous_bytes();
    point("memory", size - 1, all, "bytes");
    if (size > 2) point("memory-per-peer", size - 1, (all - early) / (size - 1 - quarter), "bytes");
  }
  MPI_Finalize();
  return 0;
}
