/* Sends to itself three times; tool.c counts. */
#include <mpi.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  for (int i = 0; i < 3; i++) {
    int in = -1;
    MPI_Request request;
    MPI_Irecv(&in, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &request);
    MPI_Send(&i, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (in != i) return 1;
  }
  MPI_Finalize();
  return 0;
}
