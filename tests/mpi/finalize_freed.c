// ranks: 2 3 4
/* A freed receive still completes: its sender is held up by it after the receiver has gone into MPI_Finalize. */
#include <unistd.h>

#include "check.h"

enum { kLarge = 3000000 };

int main(int argc, char **argv) {
  int rank;
  static char large[kLarge];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    usleep(50000); /* the others are in MPI_Finalize by now */
    MPI_Send(large, kLarge, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    puts("ok");
  } else if (rank == 1) {
    MPI_Request request;
    MPI_Irecv(large, kLarge, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL);
  }
  MPI_Finalize();
  return 0;
}
