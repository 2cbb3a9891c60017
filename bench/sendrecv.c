/* Both ways at once, as programs exchange their borders: each rank sends to the next one and receives as much from the
 * one before. Four ways to write it: MPI_Sendrecv; MPI_Sendrecv_replace; MPI_Irecv, MPI_Send, MPI_Wait; MPI_Irecv,
 * MPI_Isend, MPI_Waitall. By size from --min (8) to --max (4 MiB); the slowest rank's time of one exchange. */
#include "bench.h"

static int to, from;
static char *out, *in;

static void sendrecv(int bytes) {
  MPI_Sendrecv(out, bytes, MPI_BYTE, to, 0, in, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void sendrecv_replace(int bytes) {
  MPI_Sendrecv_replace(out, bytes, MPI_BYTE, to, 0, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void irecv_send(int bytes) {
  MPI_Request receive;
  MPI_Irecv(in, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, &receive);
  MPI_Send(out, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
}

static void irecv_isend(int bytes) {
  MPI_Request requests[2];
  MPI_Irecv(in, bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, bytes, MPI_BYTE, to, 0, MPI_COMM_WORLD, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static const struct {
  const char *name;
  void (*exchange)(int bytes);
} ways[] = {{"sendrecv", sendrecv},
            {"replace", sendrecv_replace},
            {"irecv-send", irecv_send},
            {"irecv-isend", irecv_isend}};

/* All ranks have the same answer. */
static double batch(void (*exchange)(int), int bytes, int rounds) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int i = 0; i < rounds; i++) exchange(bytes);
  double took = (MPI_Wtime() - began) * 1e6 / rounds, slowest;
  MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long most = argument(argc, argv, "--max", 4 << 20), least = argument(argc, argv, "--min", 8);
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  out = touched((size_t)most);
  in = touched((size_t)most);
  for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
    for (long bytes = least; bytes <= most; bytes *= 4) {
      double values[BATCHES];
      batch(ways[way].exchange, (int)bytes, 40); /* so that what the library measures is settled */
      const int n = repetitions(batch(ways[way].exchange, (int)bytes, 20), 2000);
      for (int i = 0; i < BATCHES; i++) values[i] = batch(ways[way].exchange, (int)bytes, n);
      if (rank == 0) point(ways[way].name, bytes, median(values, BATCHES), "us");
    }
  }
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
