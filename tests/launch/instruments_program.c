// Errors with memory that only instruments see: compiled with a sanitizer, or run under valgrind. With a second word
// the same without the error.
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank;
static int shared[8];

static void exchange(int *values, int count) {
  if (rank == 0) MPI_Send(values, count, MPI_INT, 1, 3, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(values, count, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void *write_shared(void *unused) {
  shared[3] = 7;
  return unused;
}

int main(int argc, char **argv) {
  const char *const error = argv[1];
  const int good = argc > 2;
  int provided;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(error, "unwritten") == 0) {
    int *const values = malloc(8 * sizeof *values);
    for (int i = 0; i < (good ? 8 : 7); i++) values[i] = i;
    exchange(values, 8);
    free(values);
  } else if (strcmp(error, "behind") == 0) {
    // Malloc itself gives some bytes more.
    int *const values = calloc(1, 8 * sizeof *values);
    exchange(values, good ? 8 : 9);
    free(values);
  } else if (strcmp(error, "race") == 0) {
    // Long before the call, so that nothing but their missing order is wrong.
    pthread_t thread;
    pthread_create(&thread, NULL, write_shared, NULL);
    if (good) pthread_join(thread, NULL);
    usleep(100000);
    exchange(shared, 8);
    if (!good) pthread_join(thread, NULL);
  }
  MPI_Finalize();
  return 0;
}
