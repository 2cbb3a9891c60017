/* What the test of --summary and --trace records: `traffic` (a known number of messages of each kind), `away` (rank 1
 * sleeps outside of MPI while a message comes), `hang` (rank 1 waits for a message that never comes), `many N` (rank 0
 * sends N messages to rank 1), `arguments` (calls whose arguments are known), `callback` (a call inside of a call),
 * `threads` (two threads at a time). */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char data[1 << 20];

static void *ring(void *argument) {
  MPI_Comm comm = *(MPI_Comm *)argument;
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int i = 0; i < 50; i++) {
    char out[3] = "ab", in[3];
    MPI_Sendrecv(out, 3, MPI_BYTE, (rank + 1) % size, 0, in, 3, MPI_BYTE, (rank + size - 1) % size, 0, comm,
                 MPI_STATUS_IGNORE);
  }
  return NULL;
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag) {
  int size;
  MPI_Comm_size(comm, &size);
  *flag = 0;
  return MPI_SUCCESS;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int rank, provided;
  if (strcmp(what, "threads") == 0) {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  } else {
    MPI_Init(&argc, &argv);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (strcmp(what, "traffic") == 0) {
    if (rank == 0) {
      usleep(50000);  // outside of MPI: rank 1 waits
      for (int i = 0; i < 10; i++) MPI_Send(data, 100, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
      for (int i = 0; i < 3; i++) MPI_Send(data, 1 << 20, MPI_BYTE, 1, 8, MPI_COMM_WORLD);
      MPI_Request requests[5];
      for (int i = 0; i < 5; i++) MPI_Isend(data, 1000, MPI_BYTE, 1, 9, MPI_COMM_WORLD, &requests[i]);
      MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
      for (int i = 0; i < 10; i++) MPI_Recv(data, 100, MPI_BYTE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < 3; i++) MPI_Recv(data, 1 << 20, MPI_BYTE, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < 5; i++) MPI_Recv(data, 1000, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  } else if (strcmp(what, "away") == 0) {
    MPI_Request request;
    if (rank == 1) {
      MPI_Irecv(data, 100000, MPI_BYTE, 0, 77, MPI_COMM_WORLD, &request);
      MPI_Barrier(MPI_COMM_WORLD);
      usleep(200000);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Barrier(MPI_COMM_WORLD);
      usleep(50000);  // rank 1 has left its barrier
      MPI_Send(data, 100000, MPI_BYTE, 1, 77, MPI_COMM_WORLD);
    }
  } else if (strcmp(what, "hang") == 0) {
    if (rank == 1) MPI_Recv(data, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    usleep(300000);
    abort();
  } else if (strcmp(what, "many") == 0) {
    const int count = atoi(argv[2]);
    for (int i = 0; i < count; i++) {
      if (rank == 0) MPI_Send(data, 8, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      if (rank == 1) MPI_Recv(data, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  } else if (strcmp(what, "arguments") == 0) {
    int values[3] = {0};
    double numbers[6] = {0};
    MPI_Request request;
    MPI_Bcast(values, 3, MPI_INT, 1, MPI_COMM_WORLD);
    if (rank == 0) {
      MPI_Send(numbers, 5, MPI_DOUBLE, 1, 42, MPI_COMM_WORLD);
      MPI_Irecv(values, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
      MPI_Recv(numbers, 6, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(values, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
    }
    /* Which count and datatype mean something depends on the rank. */
    double *many = calloc(64, sizeof *many);
    if (rank == 0) MPI_Scatter(many, 2, MPI_DOUBLE, MPI_IN_PLACE, -5, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD);
    else MPI_Scatter(NULL, -5, MPI_DATATYPE_NULL, many, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Sendrecv(values, 2, MPI_INT, rank, 5, numbers, 6, MPI_DOUBLE, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win window;
    MPI_Win_create(numbers, sizeof numbers, sizeof *numbers, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    if (rank == 0) MPI_Put(many, 3, MPI_DOUBLE, 1, 0, 3, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    free(many);
  } else if (strcmp(what, "callback") == 0) {
    int key;
    MPI_Comm dup;
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_free(&dup);
    MPI_Comm_free_keyval(&key);
  } else if (strcmp(what, "threads") == 0) {
    MPI_Comm first, second;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    pthread_t thread;
    pthread_create(&thread, NULL, ring, &second);
    ring(&first);
    pthread_join(thread, NULL);
    MPI_Comm_free(&first);
    MPI_Comm_free(&second);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
