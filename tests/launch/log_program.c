/* What the tests of the log and of the configuration file run: everybody meets and ends; `send BYTES`: before that rank
 * 0 sends rank 1 a message of so many bytes; `windows`: two windows are made and freed. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc > 2 && strcmp(argv[1], "send") == 0) {
    const int bytes = atoi(argv[2]);
    char *data = calloc((size_t)bytes, 1);
    if (rank == 0) MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    free(data);
  }
  for (int i = 0; argc > 1 && strcmp(argv[1], "windows") == 0 && i < 2; i++) {
    MPI_Win window;
    void *memory;
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_free(&window);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
