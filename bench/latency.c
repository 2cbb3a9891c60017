/* One-way latency by ping-pong between ranks 0 and 1, blocking send and receive. With --any 1 receives take any tag:
 * what such a receive will match cannot be known beforehand, so no protocol that begins with the receiver is possible.
 * With --changing 1 each message differs from the one before in its last byte, as messages of programs do: a receiver
 * may see by it that the message is there (FIN elimination, Small and Yuan 2009).
 */
#include "bench.h"

static double batch(char *out, char *in, int bytes, int rank, int n, int tag, int change) {
  double began = MPI_Wtime();
  for (int i = 0; i < n; i++) {
    out[bytes - 1] = (char)(out[bytes - 1] + change);
    if (rank == 0) {
      MPI_Send(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(in, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
  }
  return (MPI_Wtime() - began) * 1e6 / n / 2;
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  long most = argument(argc, argv, "--max", 4 << 20);
  int change = (int)argument(argc, argv, "--changing", 0);
  int tag = argument(argc, argv, "--any", 0) ? MPI_ANY_TAG : 1;
  char *out = touched((size_t)most), *in = touched((size_t)most);
  for (long bytes = 1; bytes <= most; bytes = bytes < 8 ? 8 : bytes * 2) {
    double values[BATCHES];
    if (rank < 2) {
      batch(out, in, (int)bytes, rank, 20, tag, change);
      values[0] = batch(out, in, (int)bytes, rank, 20, tag, change);
    }
    int n = repetitions(values[0], 2000);
    for (int i = 0; i < BATCHES; i++) values[i] = rank < 2 ? batch(out, in, (int)bytes, rank, n, tag, change) : 0;
    if (rank == 0) point("latency", bytes, median(values, BATCHES), "us");
  }
  free(out);
  free(in);
  MPI_Finalize();
  return 0;
}
