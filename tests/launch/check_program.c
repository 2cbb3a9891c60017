// What TERN_CHECK is to find, and what it must not: `check_program CASE`, 2 or 3 ranks. Cases that begin with "right_"
// are correct programs.
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
  float* data = calloc((size_t)n, sizeof *data);
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

static MPI_Request shared;
static void* wait_for_shared(void* nothing) {
  MPI_Wait(&shared, MPI_STATUS_IGNORE);
  return nothing;
}
static void* call_mpi(void* nothing) {
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

#define CASE(name) \
  { #name, name }
static const struct {
  const char* name;
  void (*run)(void);
} cases[] = {CASE(different_collectives), CASE(different_roots), CASE(different_operators), CASE(different_counts),
             CASE(different_types), CASE(gather_too_short), CASE(alltoallv_pair), CASE(blocking_and_not),
             CASE(barrier_and_end), CASE(split_and_dup), CASE(message_type), CASE(message_type_large),
             CASE(message_type_struct), CASE(overlapping_receives), CASE(send_buffer_changed),
             CASE(receive_buffer_changed), CASE(leaks), CASE(unreceived), CASE(two_threads_wait), CASE(other_thread),
             CASE(right_messages), CASE(right_halo), CASE(right_collectives)};

int main(int argc, char** argv) {
  int provided;
  const char* wanted = argc > 1 ? argv[1] : "";
  MPI_Init_thread(&argc, &argv, strcmp(wanted, "two_threads_wait") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED,
                  &provided);
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
