// ranks: 1 2
/* MPI_THREAD_MULTIPLE: a thread asleep in a probe or a receive wakes when another thread of the same rank sends
 * to it: such a message arrives outside of any poll. The sender waits until the other surely sleeps. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { kRounds = 5 };
static int rank;

static void *sends(void *unused) {
  for (int i = 0; i < kRounds; i++) {
    unsigned char buffer[100];
    usleep(30000);
    fill(buffer, i, sizeof buffer);
    MPI_Send(buffer, sizeof buffer, MPI_BYTE, rank, i, MPI_COMM_WORLD);
  }
  return unused;
}

int main(int argc, char **argv) {
  int provided, count;
  unsigned char buffer[100];
  pthread_t thread;
  MPI_Status status;
  MPI_Message message;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  pthread_create(&thread, NULL, sends, NULL);
  for (int i = 0; i < kRounds; i++) {
    memset(buffer, 0, sizeof buffer);
    if (i % 3 == 0) {
      MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      CHECK(status.MPI_SOURCE == rank && status.MPI_TAG == i);
      MPI_Get_count(&status, MPI_BYTE, &count);
      CHECK(count == sizeof buffer);
      MPI_Recv(buffer, sizeof buffer, MPI_BYTE, rank, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (i % 3 == 1) {
      MPI_Mprobe(rank, i, MPI_COMM_WORLD, &message, &status);
      MPI_Mrecv(buffer, sizeof buffer, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(buffer, sizeof buffer, MPI_BYTE, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    CHECK(holds(buffer, i, sizeof buffer));
  }
  pthread_join(thread, NULL);
  done();
  return 0;
}
