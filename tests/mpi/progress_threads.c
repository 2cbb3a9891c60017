// ranks: 2 4
// progress: event adaptive event-driven
/* Several threads that compute (MPI 5.0, 2.9): rendezvous of all of them are finished while none is inside MPI; then
 * while one of them is, asleep in a receive that is answered only when the others have seen their data. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { kThreads = 3, kBytes = 1 << 20, kRounds = 6, kPatience_ms = 60000 };

static int rank, size, to, from;
static pthread_barrier_t all;
static char *out[kThreads], *in[kThreads];

/* Looks without entering MPI; a race by intention. */
static void await(char *buffer, long seed) {
  char *want = malloc(kBytes);
  fill(want, seed, kBytes);
  for (int ms = 0; ms < kPatience_ms && memcmp(buffer, want, kBytes) != 0; ms++) usleep(1000);
  CHECK(memcmp(buffer, want, kBytes) == 0);
  free(want);
}

static void *exchange(void *argument) {
  int me = (int)(long)argument;
  for (int round = 0; round < kRounds; round++) {
    MPI_Request requests[2];
    int token = 0, sleeper = round % 2 && me == 0;
    fill(out[me], 100 * round + 10 * rank + me, kBytes);
    memset(in[me], 0, kBytes);
    pthread_barrier_wait(&all);
    if (!sleeper) {
      MPI_Irecv(in[me], kBytes, MPI_BYTE, from, me, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(out[me], kBytes, MPI_BYTE, to, me, MPI_COMM_WORLD, &requests[1]);
      await(in[me], 100 * round + 10 * from + me);
    } else {
      MPI_Recv(&token, 1, MPI_INT, from, kThreads, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      CHECK(token == round);
    }
    if (!(round % 2)) pthread_barrier_wait(&all); /* nobody is inside before all have seen */
    if (round % 2 && me == 1) MPI_Send(&round, 1, MPI_INT, to, kThreads, MPI_COMM_WORLD);
    if (!sleeper) MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    pthread_barrier_wait(&all);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int provided;
#ifdef __SANITIZE_THREAD__
  puts("skipped: what it looks at before MPI_Wait is a race by intention");
  return 0;
#endif
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  to = (rank + 1) % size, from = (rank + size - 1) % size;
  pthread_barrier_init(&all, NULL, kThreads);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) {
    out[i] = malloc(kBytes), in[i] = malloc(kBytes);
    pthread_create(&threads[i], NULL, exchange, (void *)i);
  }
  for (int i = 0; i < kThreads; i++) {
    pthread_join(threads[i], NULL);
    free(out[i]), free(in[i]);
  }
  done();
  return 0;
}
