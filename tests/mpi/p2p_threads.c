// ranks: 1 2 4
/* MPI_THREAD_MULTIPLE: threads of every rank talk to their counterparts at the same time, each on its own tag and
 * communicator; blocking calls of one thread do not hold up the others. */
#include <pthread.h>

#include "check.h"

enum { kThreads = 4, kRounds = 300 };
static int rank, size;
static MPI_Comm comms[kThreads];

static void *work(void *argument) {
  int me = (int)(long)argument, right = (rank + 1) % size, left = (rank + size - 1) % size;
  static const int sizes[] = {4, 500, 20000, 150000};
  char *out = malloc(150000), *in = malloc(150000);
  for (int i = 0; i < kRounds; i++) {
    int n = sizes[(i + me) % 4];
    MPI_Request request;
    fill(out, rank * 100 + me * 10 + i, n);
    MPI_Irecv(in, n, MPI_BYTE, left, i, comms[me], &request);
    MPI_Send(out, n, MPI_BYTE, right, i, comms[me]);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(holds(in, left * 100 + me * 10 + i, n));
    if (i % 50 == 0) {
      int sum = 0, one = 1;
      MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[me]);
      CHECK(sum == size);
    }
  }
  free(out);
  free(in);
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (long i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; i++) MPI_Comm_free(&comms[i]);
  done();
  return 0;
}
