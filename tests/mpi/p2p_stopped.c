// ranks: 2
/* A receiver that the system does not let run for a while (here it is stopped) gets all messages afterwards, in order.
 * What was sent meanwhile fills the buffers of every layer below, and is cut there anywhere. */
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include "check.h"

enum { kRounds = 100, kMessages = 4000 };

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int on_node;
  MPI_Comm_size(node, &on_node);
  long receiver = getpid();
  MPI_Bcast(&receiver, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  static MPI_Request requests[kMessages];
  static int values[kMessages];
  for (int round = 0; round < kRounds; round++) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      for (int i = 0; i < kMessages; i++) {
        int value;
        MPI_Recv(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(value == round * kMessages + i);
      }
      continue;
    }
    if (on_node == 2) CHECK(kill((pid_t)receiver, SIGSTOP) == 0);
    for (int i = 0; i < kMessages; i++) {
      values[i] = round * kMessages + i;
      MPI_Isend(&values[i], 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &requests[i]);
    }
    usleep(1000 * (round % 16));
    if (on_node == 2) CHECK(kill((pid_t)receiver, SIGCONT) == 0);
    MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);
  }
  MPI_Comm_free(&node);
  done();
  return 0;
}
