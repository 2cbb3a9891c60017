/* What arrives in the course of time: rank 0 sends messages of --bytes to rank 1 for --seconds, a window of them on
 * the way.
 *   goodput         Mbit/s  by the end of each interval of --interval ms since the first message
 *   longest-silence ms      in which no message was complete
 * `begin` on a line of its own says that the first has arrived, so that something can be done to the network at a known
 * time (bench/linkcut). */
#include "bench.h"

enum { kWindow = 8, kMaxIntervals = 100000 };

static void send_for(char *data, int bytes, double seconds) {
  MPI_Request requests[kWindow];
  for (int i = 0; i < kWindow; i++) requests[i] = MPI_REQUEST_NULL;
  const double begin = MPI_Wtime();
  for (long i = 0;; i++) {
    const int last = MPI_Wtime() - begin > seconds;
    MPI_Wait(&requests[i % kWindow], MPI_STATUS_IGNORE);
    MPI_Isend(data + (i % kWindow) * (long)bytes, bytes, MPI_BYTE, 1, last, MPI_COMM_WORLD, &requests[i % kWindow]);
    if (last) break;
  }
  MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
}

static void receive(char *data, int bytes, double interval) {
  static double arrived[kMaxIntervals];
  MPI_Request requests[kWindow];
  MPI_Status status;
  for (int i = 0; i < kWindow; i++)
    MPI_Irecv(data + i * (long)bytes, bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
  double begin = 0, before = 0, silence = 0;
  long most = 0;
  for (long i = 0;; i++) {
    MPI_Wait(&requests[i % kWindow], &status);
    const double now = MPI_Wtime();
    if (i == 0) {
      printf("begin\n");
      fflush(stdout);
      begin = before = now;
    } else {
      most = (long)((now - begin) / interval);
      if (most < kMaxIntervals) arrived[most] += bytes;
      if (now - before > silence) silence = now - before;
      before = now;
    }
    if (status.MPI_TAG == 1) break;
    MPI_Irecv(data + (i % kWindow) * (long)bytes, bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD,
              &requests[i % kWindow]);
  }
  for (int i = 0; i < kWindow; i++) {
    if (requests[i] != MPI_REQUEST_NULL) MPI_Cancel(&requests[i]);
  }
  MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
  for (long i = 0; i < most && i < kMaxIntervals; i++) {
    point("goodput", (long)((double)(i + 1) * interval * 1e3 + 0.5), arrived[i] * 8e-6 / interval, "Mbit/s");
  }
  point("longest-silence", 0, silence * 1e3, "ms");
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int bytes = (int)argument(argc, argv, "--bytes", 1 << 20);
  char *data = touched((size_t)kWindow * (size_t)bytes);
  if (rank == 0) send_for(data, bytes, (double)argument(argc, argv, "--seconds", 6));
  if (rank == 1) receive(data, bytes, (double)argument(argc, argv, "--interval", 50) * 1e-3);
  free(data);
  MPI_Finalize();
  return 0;
}
