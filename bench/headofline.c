/* Late receives and the messages behind them, ranks 0 and 1: rank 0 starts k messages of tags of their own whose
 * receives are posted only later; meanwhile both play ping-pong with another tag. How much slower is that?
 *
 * Series: late-8, late-65536: half a round trip (us) of so many bytes; x: the number k of messages that wait. */
#include "bench.h"

#define MOST_LATE 8
#define BYTES 65536
#define WARM 12
#define ROUNDS 21
#define PING 100

static void ping_pong(int rank, char *data, int bytes) {
  if (rank == 0) MPI_Send(data, bytes, MPI_BYTE, 1, PING, MPI_COMM_WORLD);
  MPI_Recv(data, bytes, MPI_BYTE, 1 - rank, PING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(data, bytes, MPI_BYTE, 0, PING, MPI_COMM_WORLD);
}

static double measure(int rank, char *data, char *late_data, int bytes, int late) {
  MPI_Request requests[MOST_LATE];
  double times[ROUNDS];
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; rank == 0 && i < late; i++)
    MPI_Isend(late_data + (size_t)i * BYTES, BYTES, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]);
  for (int i = 0; i < ROUNDS; i++) {
    double began = MPI_Wtime();
    ping_pong(rank, data, bytes);
    times[i] = (MPI_Wtime() - began) * 1e6 / 2;
  }
  for (int i = 0; rank == 1 && i < late; i++)
    MPI_Irecv(late_data + (size_t)i * BYTES, BYTES, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
  MPI_Waitall(late, requests, MPI_STATUSES_IGNORE);
  return median(times, ROUNDS);
}

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2) MPI_Abort(MPI_COMM_WORLD, 2);
  char *data = touched(BYTES), *late_data = touched((size_t)MOST_LATE * BYTES);
  for (int bytes = 8; bytes <= BYTES; bytes *= BYTES / 8) {
    for (int late = 0; late <= MOST_LATE; late++) {
      /* Receives first, so that tuple queues are there for all tags. */
      for (int warm = 0; warm < WARM; warm++) {
        for (int tag = 0; tag < MOST_LATE; tag++) {
          MPI_Request request;
          if (rank == 1) MPI_Irecv(late_data, BYTES, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request);
          ping_pong(rank, data, bytes);
          if (rank == 0) MPI_Send(late_data, BYTES, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
          else MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
      }
      const double half = measure(rank, data, late_data, bytes, late);
      if (rank == 0) point(bytes == 8 ? "late-8" : "late-65536", late, half, "us");
    }
  }
  free(data);
  free(late_data);
  MPI_Finalize();
  return 0;
}
