// ranks: 2
// paths: tcp udp
/* A rank whose bursts of small messages may wait for one another (fabric/coalescing.h) computes after one, whose
 * sends are complete: the messages are with their receiver meanwhile. */

#include <time.h>

#include "check.h"

enum { kBurst = 8, kTraining = 500 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void send_burst(MPI_Request *requests) {
  static char data[kBurst];
  for (int i = 0; i < kBurst; i++) MPI_Isend(data, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, requests + i);
}

static void receive_burst(void) {
  char byte;
  for (int i = 0; i < kBurst; i++) MPI_Recv(&byte, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void complete(int how, MPI_Request *requests) {
  int flag, index;
  switch (how) {
    case 0: MPI_Waitall(kBurst, requests, MPI_STATUSES_IGNORE); break;
    case 1:
      for (int i = 0; i < kBurst; i++) MPI_Wait(requests + i, MPI_STATUS_IGNORE);
      break;
    case 2:
      for (int i = 0; i < kBurst; i++) {
        for (flag = 0; !flag;) MPI_Test(requests + i, &flag, MPI_STATUS_IGNORE);
      }
      break;
    case 3:
      for (int i = 0; i < kBurst; i++) MPI_Waitany(kBurst, requests, &index, MPI_STATUS_IGNORE);
      break;
    default:
      for (int i = 0; i < kBurst; i++) MPI_Request_free(requests + i);
  }
}

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int how = 0; how < 5; how++) {
    MPI_Request requests[kBurst + 1];
    char answer = 0;
    for (int i = 0; i < kTraining; i++) {
      if (rank == 0) {
        send_burst(requests);
        MPI_Irecv(&answer, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, requests + kBurst);
        MPI_Waitall(kBurst + 1, requests, MPI_STATUSES_IGNORE);
      } else {
        receive_burst();
        MPI_Send(&answer, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
      }
    }
    double computed = 0;
    if (rank == 0) {
      send_burst(requests);
      complete(how, requests);
      for (const double begin = now(); (computed = now()) < begin + 0.3;) {
      }
      MPI_Send(&computed, 1, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD);
    } else {
      receive_burst();
      const double arrived = now();
      MPI_Recv(&computed, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (arrived >= computed)
        fprintf(stderr, "form %d: %g ms after the computation\n", how, (arrived - computed) * 1e3);
      CHECK(arrived < computed);
    }
  }
  done();
  return 0;
}
