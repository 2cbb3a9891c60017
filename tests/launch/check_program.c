// What TERN_CHECK is to find, and what it must not: `check_program CASE`, 2 or 3 ranks. Cases that begin with "right_"
// are correct programs.
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size;

static void different_collectives(void) {
  int value = 1, sum;
  if (rank == 0) MPI_Barrier(MPI_COMM_WORLD);
  else MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
static void different_roots(void) {
  int value = rank;
  MPI_Bcast(&value, 1, MPI_INT, rank == 0 ? 0 : 1, MPI_COMM_WORLD);
}
static void different_operators(void) {
  int value = rank, result;
  MPI_Allreduce(&value, &result, 1, MPI_INT, rank == 0 ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD);
}
static void different_counts(void) {
  int values[4] = {0}, results[4];
  MPI_Allreduce(values, results, rank == 0 ? 4 : 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
static void different_types(void) {
  char values[64] = {0};
  MPI_Bcast(values, 4, rank == 0 ? MPI_INT : MPI_FLOAT, 0, MPI_COMM_WORLD);
}
static void gather_too_short(void) {
  int values[4] = {0}, all[64];
  MPI_Gather(values, rank == 1 ? 2 : 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
}
static void alltoallv_pair(void) {
  int sends[64] = {0}, receives[64], counts[8], wanted[8], displs[8];
  for (int i = 0; i < size; ++i) {
    counts[i] = wanted[i] = 1;
    displs[i] = 4 * i;
  }
  if (rank == 0) counts[1] = 2;  // rank 1 expects one
  MPI_Alltoallv(sends, counts, displs, MPI_INT, receives, wanted, displs, MPI_INT, MPI_COMM_WORLD);
}
static void blocking_and_not(void) {
  if (rank == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}
static void barrier_and_end(void) {
  if (rank == 0) MPI_Barrier(MPI_COMM_WORLD);
}
static void split_and_dup(void) {
  MPI_Comm made;
  if (rank == 0) MPI_Comm_dup(MPI_COMM_WORLD, &made);
  else MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &made);
}

static void message_type(void) {
  double value = 1;
  int got[2];
  if (rank == 0) MPI_Send(&value, 1, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(got, 2, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void message_type_large(void) {
  const int n = 300000;
  float *data = calloc((size_t)n, sizeof *data);
  MPI_Request request;
  if (rank == 0) MPI_Isend(data, n, MPI_FLOAT, 1, 5, MPI_COMM_WORLD, &request);
  if (rank == 1) MPI_Irecv(data, n, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
  if (rank < 2) MPI_Wait(&request, MPI_STATUS_IGNORE);
  free(data);
}
static void message_type_struct(void) {
  struct {
    int i;
    double d;
  } value = {1, 2};
  MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, swapped[2] = {MPI_DOUBLE, MPI_INT}, type;
  MPI_Aint displs[2] = {0, 8}, back[2] = {0, 8};
  int lengths[2] = {1, 1};
  if (rank == 0) MPI_Type_create_struct(2, lengths, displs, types, &type);
  else MPI_Type_create_struct(2, lengths, back, swapped, &type);
  MPI_Type_commit(&type);
  if (rank == 0) MPI_Send(&value, 1, type, 1, 5, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(&value, 1, type, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Type_free(&type);
}

static void overlapping_receives(void) {
  int values[4];
  MPI_Request requests[2];
  if (rank == 0) {
    MPI_Irecv(values, 3, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(values + 2, 2, MPI_INT, 1, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  } else if (rank == 1) {
    int data[3] = {0};
    MPI_Send(data, 3, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Send(data, 2, MPI_INT, 0, 2, MPI_COMM_WORLD);
  }
}
static void send_buffer_changed(void) {
  int value = 1;
  MPI_Request request;
  if (rank == 0) {
    MPI_Isend(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    value = 2;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}
static void receive_buffer_changed(void) {
  int value = 1;
  MPI_Request request;
  if (rank == 0) {
    MPI_Irecv(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request);
    value = 2;
    int flag;
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  int data = 3;
  if (rank == 1) MPI_Send(&data, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
  if (rank == 0) MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void leaks(void) {
  MPI_Datatype type;
  MPI_Comm comm;
  MPI_Request request;
  static int value;
  for (int i = 0; i < 3; ++i) MPI_Type_contiguous(i + 1, MPI_INT, &type);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &request);
}
static void unreceived(void) {
  int value = 1;
  if (rank == 1) MPI_Send(&value, 1, MPI_INT, 0, 77, MPI_COMM_WORLD);
}

static void unreceived_isend(void) {
  int value = 1;
  MPI_Request request;
  if (rank == 1) MPI_Isend(&value, 1, MPI_INT, 0, 78, MPI_COMM_WORLD, &request);
  if (rank == 1) MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void sends_rely_on_buffers(void) {
  int value = 1, other = 1 - rank;
  if (rank > 1) return;
  MPI_Send(&value, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
  MPI_Recv(&value, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// --- What the program declares.

static void variable_too_short(void) {
  int values[8] = {0}, got[16];
  if (rank == 0) MPI_Send(values + 2, 10, MPI_INT, 1, 5, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(got, 16, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void variable_of_other_type(void) {
  float values[8] = {0};
  MPI_Bcast(values, 8, MPI_INT, 0, MPI_COMM_WORLD);
}
static unsigned int global_values[4];
static void global_of_other_type(void) { MPI_Bcast(global_values, 4, MPI_INT, 0, MPI_COMM_WORLD); }
static void send_long(long *numbers) {
  if (rank == 0) MPI_Send(numbers, 2, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(numbers, 2, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void pointer_to_other_type(void) {
  long *numbers = calloc(2, sizeof *numbers);
  send_long(numbers);
  free(numbers);
}
struct record {
  int number;
  char letter;
  double value;
};
static void structure_of_other_layout(void) {
  struct record *one = calloc(1, sizeof *one);
  const int lengths[3] = {1, 1, 1};
  const MPI_Aint displacements[3] = {0, 4, 5};  // the value is at 8
  const MPI_Datatype types[3] = {MPI_INT, MPI_CHAR, MPI_DOUBLE};
  MPI_Datatype type;
  MPI_Type_create_struct(3, lengths, displacements, types, &type);
  MPI_Type_commit(&type);
  MPI_Bcast(one, 1, type, 0, MPI_COMM_WORLD);
  MPI_Type_free(&type);
  free(one);
}
static void block_too_short(void) {
  int *values = calloc(4, sizeof *values);
  // malloc gives 24 bytes, or 40 where a freed block had them.
  const int too_many = (int)(malloc_usable_size(values) / sizeof *values) + 4;
  if (rank == 0) MPI_Send(values, 4, MPI_INT, 1, 5, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(values, too_many, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  free(values);
}
static void entries_overlap(void) {
  double values[8] = {0};
  MPI_Datatype type;
  MPI_Type_create_hvector(3, 2, 8, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  if (rank == 0) MPI_Send(values, 6, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(values, 1, type, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Type_free(&type);
}
static void receive_freed(void) {
  static int value;
  MPI_Request request;
  if (rank == 1) {
    MPI_Irecv(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
}

// --- Threads.

static void rest(int milliseconds) {
  struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&pause, NULL);
}
static void in_two_threads(void *(*other)(void *), void *argument, void (*mine)(void)) {
  pthread_t thread;
  pthread_create(&thread, NULL, other, argument);
  mine();
  pthread_join(thread, NULL);
}
static MPI_Comm made;
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void *barrier_of_thread(void *nothing) {
  barrier();
  return nothing;
}
static void threads_in_barriers(void) { in_two_threads(barrier_of_thread, NULL, barrier); }
static void *receive_on_made(void *nothing) {
  int value;
  MPI_Recv(&value, 1, MPI_INT, 0, 1, made, MPI_STATUS_IGNORE);
  return nothing;
}
static void free_soon(void) {
  rest(1000);  // the other thread has long been in MPI_Recv
  MPI_Comm copy = made;
  MPI_Comm_free(&copy);
}
static void threads_free_communicator(void) {
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  int value = 0;
  if (rank == 1) in_two_threads(receive_on_made, NULL, free_soon);
  if (rank == 0) {
    rest(1500);
    MPI_Send(&value, 1, MPI_INT, 1, 1, made);
  }
  if (rank != 1) MPI_Comm_free(&made);
}
static volatile int stop, writing;
static volatile int written[1024];
static void *write_always(void *nothing) {
  while (!stop) {
    for (int i = 0; i < 1024; ++i) ++written[i];
    writing = 1;
  }
  return nothing;
}
static void send_written(void) {
  while (rank == 0 && !writing) rest(1);
  /* Several times: on a busy machine the other thread may not run while one of them pauses. */
  for (int i = 0; i < 10 && rank == 0; i++) MPI_Send((const void *)written, 1024, MPI_INT, 1, 1, MPI_COMM_WORLD);
  stop = 1;
}
static void threads_write_buffer(void) {
  int got[1024];
  if (rank == 0) in_two_threads(write_always, NULL, send_written);
  for (int i = 0; i < 10 && rank == 1; i++) MPI_Recv(got, 1024, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void *sleep_on(void *nothing) {
  rest(60000);
  return nothing;
}
static void single_with_threads(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, sleep_on, NULL);
  pthread_detach(thread);
}

static MPI_Request shared;
static void *wait_for_shared(void *nothing) {
  MPI_Wait(&shared, MPI_STATUS_IGNORE);
  return nothing;
}
static void *call_mpi(void *nothing) {
  int flag;
  MPI_Iprobe(0, 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
  return nothing;
}
static void two_threads_wait(void) {
  int value = 0;
  pthread_t thread;
  if (rank == 0) {
    MPI_Irecv(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &shared);
    MPI_Request copy = shared;
    pthread_create(&thread, NULL, wait_for_shared, NULL);
    int sent = 1;
    struct timespec pause = {0, 200000000};
    nanosleep(&pause, NULL);
    int flag;
    MPI_Test(&copy, &flag, MPI_STATUS_IGNORE);
    MPI_Send(&sent, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
  } else if (rank == 1) {
    MPI_Recv(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
  }
}
static void other_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, call_mpi, NULL);
  pthread_join(thread, NULL);
}

// --- Correct.

static void right_messages(void) {
  // Wildcards, any order of completion, partial receives, derived types, large messages, probes.
  enum { n = 40 };
  static double many[n][50000];
  MPI_Request requests[n];
  MPI_Datatype column, pair, row;
  MPI_Type_vector(1000, 1, 50, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  MPI_Type_contiguous(10, MPI_DOUBLE, &row);
  MPI_Type_commit(&row);
  if (rank == 0) {
    for (int i = 0; i < n; ++i) {
      const int count = i % 3 == 0 ? 50000 : i;
      MPI_Isend(many[i], count, MPI_DOUBLE, 1, i % 4, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    int numbers[7] = {0};
    MPI_Send(numbers, 7, MPI_INT, 1, 9, MPI_COMM_WORLD);
    MPI_Send(many[0], 1, column, 1, 9, MPI_COMM_WORLD);
    MPI_Send(many[0], 3, row, 1, 9, MPI_COMM_WORLD);
    MPI_Send(numbers, 2, MPI_2INT, 1, 9, MPI_COMM_WORLD);
    char packed[100];
    int position = 0;
    MPI_Pack(numbers, 7, MPI_INT, packed, 100, &position, MPI_COMM_WORLD);
    MPI_Send(packed, position, MPI_PACKED, 1, 9, MPI_COMM_WORLD);
  } else if (rank == 1) {
    for (int i = 0; i < n; ++i)
      MPI_Irecv(many[i], 50000, MPI_DOUBLE, i % 2 ? 0 : MPI_ANY_SOURCE, i % 5 ? MPI_ANY_TAG : i % 4, MPI_COMM_WORLD,
                &requests[i]);
    for (int i = 0; i < n; ++i) {
      int which;
      MPI_Waitany(n, requests, &which, MPI_STATUS_IGNORE);
    }
    int numbers[8];
    MPI_Message message;
    MPI_Mprobe(0, 9, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(numbers, 4, pair, &message, MPI_STATUS_IGNORE);
    MPI_Recv(many[0], 1000, MPI_DOUBLE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(many[0], 30, MPI_DOUBLE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(numbers, 4, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(numbers, 7, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Type_free(&column);
  MPI_Type_free(&pair);
  MPI_Type_free(&row);
}
static void right_halo(void) {
  // Columns of one matrix: their bytes interleave; persistent requests; a shared send buffer.
  double matrix[8][8] = {{0}};
  MPI_Datatype column;
  MPI_Type_vector(8, 1, 8, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  MPI_Request requests[4];
  MPI_Recv_init(&matrix[0][0], 1, column, left, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(&matrix[0][7], 1, column, right, 2, MPI_COMM_WORLD, &requests[1]);
  MPI_Send_init(&matrix[0][1], 1, column, left, 2, MPI_COMM_WORLD, &requests[2]);
  MPI_Send_init(&matrix[0][6], 1, column, right, 1, MPI_COMM_WORLD, &requests[3]);
  for (int step = 0; step < 5; ++step) {
    MPI_Startall(4, requests);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 8; ++i) matrix[i][1] = matrix[i][6] = step;
  }
  for (int i = 0; i < 4; ++i) MPI_Request_free(&requests[i]);
  MPI_Request both[2];
  int value = rank, got[2];
  MPI_Isend(&value, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &both[0]);
  MPI_Isend(&value, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &both[1]);
  for (int i = 0; i < 2; ++i) MPI_Recv(&got[i], 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
  MPI_Sendrecv_replace(&value, 1, MPI_INT, right, 4, left, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Type_free(&column);
}
static void right_collectives(void) {
  int in[64] = {0}, out[64] = {0}, counts[8], displs[8];
  MPI_Comm half;
  MPI_Request requests[2];
  for (int i = 0; i < size; ++i) {
    counts[i] = i + 1;
    displs[i] = 8 * i;
  }
  MPI_Datatype two;
  MPI_Type_contiguous(2, MPI_INT, &two);
  MPI_Type_commit(&two);
  for (int round = 0; round < 3; ++round) {
    MPI_Bcast(in, rank == 0 ? 2 : 4, rank == 0 ? two : MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Gatherv(in, rank + 1, MPI_INT, out, counts, displs, MPI_INT, size - 1, MPI_COMM_WORLD);
    MPI_Scatterv(in, counts, displs, MPI_INT, out, rank + 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allgatherv(in, rank + 1, MPI_INT, out, counts, displs, MPI_INT, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, out, 5, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Reduce(rank == 0 ? MPI_IN_PLACE : in, rank == 0 ? out : NULL, 5, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Alltoall(in, 2, MPI_INT, out, 1, two, MPI_COMM_WORLD);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Scan(in, out, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Allreduce(in, out, 1 + rank % 2, MPI_INT, MPI_SUM, half);
    MPI_Comm_free(&half);
    MPI_Ibcast(in, 4, MPI_INT, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallreduce(out, out + 32, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  // A nonblocking collective may be begun long before another rank begins it.
  if (rank == 0) MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
  if (rank == 0) MPI_Send(in, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
  if (rank == 1) MPI_Recv(in, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank != 0) MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Type_free(&two);
}

// What memory is declared as, in all ways that are right.
union anything {
  int i;
  float f;
};
struct nested {
  struct record records[3];
  union anything any;
  const unsigned long long *pointer;
};
static void right_blocks(void) {
  const int lengths[] = {1, 20, 300, 4000, 50000, 600000};
  for (int i = 0; i < 6; ++i) {
    double *values = calloc((size_t)lengths[i], sizeof *values);
    MPI_Bcast(values, lengths[i], MPI_DOUBLE, 0, MPI_COMM_WORLD);
    values = realloc(values, 2 * (size_t)lengths[i] * sizeof *values);
    MPI_Bcast(values + lengths[i], lengths[i], MPI_DOUBLE, 0, MPI_COMM_WORLD);
    free(values);
  }
}
static void right_declarations(void) {
  struct nested nested[2] = {{{{0}}, {0}, NULL}};
  double matrix[4][5] = {{0}}, *row = matrix[2];
  double _Complex numbers[3] = {0};
  char raw[64] = {0};
  long offsets[2] = {0};
  enum { red, green } color = green;
  _Bool truth = 1;
  void *anything = calloc(8, 8);
  int n = 6, variable[n];
  const int lengths[3] = {1, 1, 1};
  const MPI_Aint displacements[3] = {0, 4, 8};
  const MPI_Datatype types[3] = {MPI_INT, MPI_CHAR, MPI_DOUBLE};
  MPI_Datatype type, resized;
  memset(variable, 0, sizeof variable);
  MPI_Type_create_struct(3, lengths, displacements, types, &type);
  MPI_Type_create_resized(type, 0, sizeof(struct record), &resized);
  MPI_Type_commit(&resized);
  MPI_Bcast(nested[0].records, 3, resized, 0, MPI_COMM_WORLD);
  MPI_Bcast(&nested[1].records[1].value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Bcast(&nested[0].any, 1, MPI_FLOAT, 0, MPI_COMM_WORLD);
  MPI_Bcast(nested, sizeof nested, MPI_BYTE, 0, MPI_COMM_WORLD);
  MPI_Bcast(matrix, 20, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Bcast(row, 10, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Bcast(numbers, 6, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Bcast(numbers, 3, MPI_C_DOUBLE_COMPLEX, 0, MPI_COMM_WORLD);
  MPI_Bcast(raw, 8, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Bcast(offsets, 2, MPI_AINT, 0, MPI_COMM_WORLD);
  MPI_Bcast(&color, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(&truth, 1, MPI_C_BOOL, 0, MPI_COMM_WORLD);
  MPI_Bcast(anything, 8, MPI_LONG, 0, MPI_COMM_WORLD);
  MPI_Bcast(variable, 6, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Bcast(global_values, 4, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
  free(anything);
  MPI_Type_free(&type);
  MPI_Type_free(&resized);
}
static void *messages_of_thread(void *at) {
  const int tag = *(const int *)at;
  for (int i = 0; i < 20; ++i) {
    int sent = i, got = 0;
    MPI_Sendrecv(&sent, 1, MPI_INT, (rank + 1) % size, tag, &got, 1, MPI_INT, (rank + size - 1) % size, tag,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return NULL;
}
static void messages_of_main(void) {
  int tag = 1;
  messages_of_thread(&tag);
}
static void right_threads(void) {
  int tag = 2;
  in_two_threads(messages_of_thread, &tag, messages_of_main);
  barrier();
}

#define CASE(name) \
  { #name, name }
static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {CASE(different_collectives),
             CASE(different_roots),
             CASE(different_operators),
             CASE(different_counts),
             CASE(different_types),
             CASE(gather_too_short),
             CASE(alltoallv_pair),
             CASE(blocking_and_not),
             CASE(barrier_and_end),
             CASE(split_and_dup),
             CASE(message_type),
             CASE(message_type_large),
             CASE(message_type_struct),
             CASE(overlapping_receives),
             CASE(send_buffer_changed),
             CASE(receive_buffer_changed),
             CASE(variable_too_short),
             CASE(variable_of_other_type),
             CASE(global_of_other_type),
             CASE(pointer_to_other_type),
             CASE(structure_of_other_layout),
             CASE(block_too_short),
             CASE(entries_overlap),
             CASE(receive_freed),
             CASE(threads_in_barriers),
             CASE(threads_free_communicator),
             CASE(threads_write_buffer),
             CASE(single_with_threads),
             CASE(right_declarations),
             CASE(right_blocks),
             CASE(right_threads),
             CASE(leaks),
             CASE(unreceived),
             CASE(unreceived_isend),
             CASE(sends_rely_on_buffers),
             CASE(two_threads_wait),
             CASE(other_thread),
             CASE(right_messages),
             CASE(right_halo),
             CASE(right_collectives)};

int main(int argc, char **argv) {
  int provided;
  const char *wanted = argc > 1 ? argv[1] : "";
  const int level = strncmp(wanted, "single_", 7) == 0  ? MPI_THREAD_SINGLE
                    : strstr(wanted, "threads") != NULL ? MPI_THREAD_MULTIPLE
                                                        : MPI_THREAD_FUNNELED;
  MPI_Init_thread(&argc, &argv, level, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    if (strcmp(wanted, cases[i].name) == 0) {
      cases[i].run();
      MPI_Finalize();
      return 0;
    }
  }
  fprintf(stderr, "no such case: %s\n", wanted);
  MPI_Abort(MPI_COMM_WORLD, 2);
  return 2;
}
