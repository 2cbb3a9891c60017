// ranks: 1 2 4
/* Buffered sends: the rank's buffer, a communicator's, a session's, automatic ones; room, detaching, flushing
 * (3.6). */
#include "check.h"

enum { MESSAGES = 8, BYTES = 300 };
static int rank, size, to, from;

static void exchange(MPI_Comm comm, long seed) {
  char out[BYTES], in[BYTES];
  for (int i = 0; i < MESSAGES; i++) {
    fill(out, seed + i, BYTES);
    MPI_Bsend(out, BYTES, MPI_CHAR, to, i, comm);
    memset(out, 0, sizeof out);
  }
  for (int i = MESSAGES; i-- > 0;) {
    MPI_Recv(in, BYTES, MPI_CHAR, from, i, comm, MPI_STATUS_IGNORE);
    CHECK(holds(in, seed + i, BYTES));
  }
}

int main(int argc, char **argv) {
  MPI_Comm comm;
  MPI_Request request;
  char *back;
  int bytes;
  MPI_Count wide;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  int room = MESSAGES * (BYTES + MPI_BSEND_OVERHEAD);
  char *memory = malloc(room), *other = malloc(room);

  /* The rank's: filled and emptied several times, detached with messages in it. */
  MPI_Buffer_attach(memory, room);
  for (int round = 0; round < 5; round++) {
    exchange(MPI_COMM_WORLD, 1000 * round);
    MPI_Buffer_flush();
  }
  MPI_Buffer_iflush(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request flushing;
  MPI_Bsend(&room, 1, MPI_INT, to, 99, MPI_COMM_WORLD);
  MPI_Buffer_iflush(&flushing);
  MPI_Recv(&bytes, 1, MPI_INT, from, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&flushing, MPI_STATUS_IGNORE);
  CHECK(bytes == room);
  MPI_Buffer_detach(&back, &bytes);
  CHECK(back == memory && bytes == room);

  /* Nothing attached: an empty message passes. */
  MPI_Bsend(NULL, 0, MPI_INT, to, 1, MPI_COMM_WORLD);
  MPI_Recv(NULL, 0, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

  /* A communicator's goes before the rank's: the rank's is too small here. */
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Buffer_attach(memory, 1);
  MPI_Comm_attach_buffer_c(comm, other, room);
  exchange(comm, 7);
  MPI_Comm_flush_buffer(comm);
  MPI_Comm_iflush_buffer(comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_detach_buffer_c(comm, &back, &wide);
  CHECK(back == other && wide == room);
  MPI_Buffer_detach(&back, &bytes);
  CHECK(back == memory && bytes == 1);

  /* Automatic. */
  MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0);
  exchange(comm, 8);
  MPI_Comm_detach_buffer(comm, &back, &bytes);
  CHECK((void *)back == MPI_BUFFER_AUTOMATIC);
  MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 12345);
  exchange(MPI_COMM_WORLD, 9);

  /* Persistent and nonblocking; freeing the communicator first lets its messages leave. */
  int sum = 0, in;
  MPI_Bsend_init(&rank, 1, MPI_INT, to, 3, comm, &request);
  for (int i = 0; i < 4; i++) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
  MPI_Ibsend(&rank, 1, MPI_INT, to, 3, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < 5; i++) {
    MPI_Recv(&in, 1, MPI_INT, from, 3, comm, MPI_STATUS_IGNORE);
    sum += in;
  }
  CHECK(sum == 5 * from);
  MPI_Buffer_detach(&back, &bytes);
  CHECK((void *)back == MPI_BUFFER_AUTOMATIC);
  MPI_Comm_free(&comm);
  free(memory);
  free(other);
  done();
  return 0;
}
