// ranks: 2 4
/* MPI_Comm_disconnect waits for what is pending on the communicator (MPI 5.0, 11.10.4): freed sends and receives,
 * requests that the user still has, buffered messages. What it waits for is seen in the memory: it is overwritten right
 * after. */
#include "check.h"

#include <unistd.h>

enum { kBytes = 3000000 };

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char *out = malloc(kBytes), *in = malloc(kBytes);
  void *attached = malloc(kBytes + 1000);
  int partner = rank ^ 1, sender = rank % 2 == 0;
  for (int way = 0; way < 4; way++) {
    MPI_Comm comm;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (way == 3) MPI_Comm_attach_buffer(comm, attached, kBytes + 1000);
    if (sender) {
      fill(out, way, kBytes);
      if (way < 2) MPI_Isend(out, kBytes, MPI_BYTE, partner, 5, comm, &request);
      if (way == 2) MPI_Issend(out, 10, MPI_BYTE, partner, 5, comm, &request);
      if (way == 3) MPI_Bsend(out, kBytes, MPI_BYTE, partner, 5, comm);
      if (way != 1 && way != 3) MPI_Request_free(&request);
      MPI_Comm_disconnect(&comm);
      CHECK(comm == MPI_COMM_NULL);
      memset(out, 0x55, kBytes);
      if (way == 3) memset(attached, 0x55, kBytes + 1000);
      if (way == 1) { /* complete, so this is no wait */
        int flag = 0;
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        CHECK(flag);
      }
    } else {
      usleep(50000);
      if (way == 1) {
        MPI_Recv(in, kBytes, MPI_BYTE, partner, 5, comm, MPI_STATUS_IGNORE);
      } else {
        MPI_Irecv(in, kBytes, MPI_BYTE, partner, 5, comm, &request);
        MPI_Request_free(&request);
      }
      MPI_Comm_disconnect(&comm);
      CHECK(holds(in, way, way == 2 ? 10 : kBytes));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  free(out);
  free(in);
  free(attached);
  done();
  return 0;
}
