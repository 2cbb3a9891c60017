/* One-way bandwidth from rank 0 to rank 1. --blocking 1: MPI_Send and MPI_Recv, one message after the other (Figures
 * 3.4, 3.5, 4.3 and 4.4 of Majumder 2004). Else windows of nonblocking messages: --unexpected 0: the receives wait for
 * their messages; 1: the messages have been sent, the last of them seen, before the first receive is posted (Figures
 * 4.5 to 4.8). GB/s (10^9); processor time of each side, by the kernel's
 * account, percent of a core. */
#include "bench.h"

#define WINDOW 32

/* One message after the other; an answer ends the batch. */
static double stream(char *data, int bytes, int rank, int messages) {
  double began = MPI_Wtime();
  for (int i = 0; i < messages; i++) {
    if (rank == 0) MPI_Send(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    else MPI_Recv(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (rank == 0) MPI_Recv(NULL, 0, MPI_BYTE, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else MPI_Send(NULL, 0, MPI_BYTE, 0, 99, MPI_COMM_WORLD);
  return (MPI_Wtime() - began) * 1e6;
}

static double batch(char *data, int bytes, int rank, int unexpected, int windows) {
  if (unexpected < 0) return stream(data, bytes, rank, WINDOW * windows) / windows;
  MPI_Request requests[WINDOW];
  double began = MPI_Wtime();
  for (int w = 0; w < windows; w++) {
    if (rank == 0) {
      MPI_Recv(NULL, 0, MPI_BYTE, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* go */
      for (int i = 0; i < WINDOW; i++) MPI_Isend(data, bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
      MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    } else {
      if (unexpected) {
        MPI_Send(NULL, 0, MPI_BYTE, 0, 99, MPI_COMM_WORLD);
        MPI_Probe(0, WINDOW - 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
      for (int i = 0; i < WINDOW; i++) MPI_Irecv(data, bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
      if (!unexpected) MPI_Send(NULL, 0, MPI_BYTE, 0, 99, MPI_COMM_WORLD);
      MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    }
  }
  return (MPI_Wtime() - began) * 1e6 / windows;
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const long most = argument(argc, argv, "--max", 2 << 20);
  const int blocking = (int)argument(argc, argv, "--blocking", 0);
  const int unexpected = blocking ? -1 : (int)argument(argc, argv, "--unexpected", 0);
  char *data = touched((size_t)most);
  for (long bytes = 1024; bytes <= most; bytes *= 2) {
    double values[BATCHES];
    if (rank < 2) {
      batch(data, (int)bytes, rank, unexpected, 2);
      values[0] = batch(data, (int)bytes, rank, unexpected, 2);
    }
    int n = repetitions(values[0], 5000);
    double began = MPI_Wtime(), cpu = cpu_us();
    for (int i = 0; i < BATCHES; i++) values[i] = rank < 2 ? batch(data, (int)bytes, rank, unexpected, n) : 0;
    double used[2] = {100e-6 * (cpu_us() - cpu) / (MPI_Wtime() - began), 0};
    double us = median(values, BATCHES);
    if (rank == 1) MPI_Send(used, 1, MPI_DOUBLE, 0, 98, MPI_COMM_WORLD);
    if (rank == 0) {
      MPI_Recv(used + 1, 1, MPI_DOUBLE, 1, 98, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      point(blocking     ? "blocking"
            : unexpected ? "unexpected"
                         : "expected",
            bytes, WINDOW * (double)bytes / us / 1e3, "GB/s");
      point("sender-cpu", bytes, used[0], "percent-of-a-core");
      point("receiver-cpu", bytes, used[1], "percent-of-a-core");
    }
  }
  free(data);
  MPI_Finalize();
  return 0;
}
