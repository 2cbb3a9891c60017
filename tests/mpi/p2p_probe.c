// ranks: 2 4
/* Probe, Iprobe, Mprobe, Improbe; cancel of receives and of an unmatched synchronous send. */
#include "check.h"

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  static char buffer[300000];
  const int sizes[] = {0, 5, 100, 9000, 300000};
  for (int k = 0; k < 5; k++) {
    int n = sizes[k], count, flag = 0;
    if (rank == 0) {
      for (int i = 1; i < size; i++) {
        MPI_Status status;
        MPI_Message message;
        MPI_Probe(MPI_ANY_SOURCE, k, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == n);
        int from = status.MPI_SOURCE;
        if (i % 2) {
          MPI_Mprobe(from, k, MPI_COMM_WORLD, &message, &status);
        } else {
          while (!flag) MPI_Improbe(from, k, MPI_COMM_WORLD, &flag, &message, &status);
        }
        MPI_Iprobe(from, k, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag); /* it is matched and no longer there */
        if (k % 2) {
          MPI_Mrecv(buffer, n, MPI_BYTE, &message, &status);
        } else {
          MPI_Request request;
          MPI_Imrecv(buffer, n, MPI_BYTE, &message, &request);
          MPI_Wait(&request, &status);
        }
        CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == from);
        CHECK(holds(buffer, from + k, n));
      }
    } else {
      fill(buffer, rank + k, n);
      MPI_Send(buffer, n, MPI_BYTE, 0, k, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Message message;
  MPI_Status status;
  MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status);
  CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
  MPI_Mrecv(buffer, 1, MPI_BYTE, &message, &status);
  CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL);

  MPI_Request request;
  int cancelled;
  MPI_Irecv(buffer, 10, MPI_BYTE, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled);
  if (rank == 1) {
    MPI_Issend(buffer, 300000, MPI_BYTE, 0, 98, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled);
  }
  if (rank == 0) {
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, 98, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, 98, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
  }
  done();
  return 0;
}
