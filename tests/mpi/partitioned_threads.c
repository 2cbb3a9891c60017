// ranks: 1 2 3
/* Partitions marked by several threads at once: each by one of MPI_Pready, ranges and lists, in any order; the
 * receiver's threads ask for partitions of another size. Marking takes no lock where nothing is to be sent, and an
 * arrived partition is seen without it. Wrong partitions are errors, which the other threads do not notice. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"
#include "stay_inside.h"

enum { kThreads = 4 };
static int rank, size, to, from;

struct Side {
  MPI_Request request;
  char *data;
  int parts, bytes, round, number;
};

/* Partition i is marked by thread i % kThreads, alone or with those that follow at this distance. */
static void *mark(void *argument) {
  struct Side *side = argument;
  int list[64];
  for (int i = side->number; i < side->parts;) {
    int many = 1 + (i + side->round) % 5;
    int n = 0;
    for (int k = i; n < many && k < side->parts; k += kThreads) list[n++] = k;
    for (int k = 0; k < n; k++) {
      char *part = side->data + (long)list[k] * side->bytes;
      for (int b = 0; b < side->bytes; b++) part[b] = pattern(rank + side->round, list[k] * side->bytes + b);
    }
    if (n == 1 && i % 3 == 0) MPI_Pready_range(i, i, side->request);
    else if (n == 1) MPI_Pready(i, side->request);
    else MPI_Pready_list(n, list, side->request);
    i += n * kThreads;
  }
  return NULL;
}

static void *await(void *argument) {
  struct Side *side = argument;
  for (int i = side->number; i < side->parts; i += kThreads) {
    int there = 0;
    while (!there) MPI_Parrived(side->request, i, &there);
    for (int b = 0; b < side->bytes; b++) {
      int at = i * side->bytes + b;
      CHECK((unsigned char)side->data[at] == pattern(from + side->round, at));
    }
  }
  return NULL;
}

static void exchange(int out_parts, int out_bytes, int in_parts, int rounds) {
  int total = out_parts * out_bytes;
  char *out = malloc((size_t)total), *in = malloc((size_t)total);
  MPI_Request send, receive;
  CHECK(total % in_parts == 0);
  MPI_Psend_init(out, out_parts, out_bytes, MPI_BYTE, to, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
  MPI_Precv_init(in, in_parts, total / in_parts, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  for (int round = 0; round < rounds; round++) {
    pthread_t threads[2 * kThreads];
    struct Side sides[2 * kThreads];
    memset(in, 0, (size_t)total);
    MPI_Start(&receive);
    MPI_Start(&send);
    for (int i = 0; i < kThreads; i++) {
      sides[2 * i] = (struct Side){send, out, out_parts, out_bytes, round, i};
      sides[2 * i + 1] = (struct Side){receive, in, in_parts, total / in_parts, round, i};
      pthread_create(&threads[2 * i], NULL, mark, &sides[2 * i]);
      pthread_create(&threads[2 * i + 1], NULL, await, &sides[2 * i + 1]);
    }
    if (round % 2) MPI_Wait(&send, MPI_STATUS_IGNORE); /* while they mark */
    for (int i = 0; i < 2 * kThreads; i++) pthread_join(threads[i], NULL);
    if (round % 2 == 0) MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&send);
  MPI_Request_free(&receive);
  free(out);
  free(in);
}

/* Another thread is inside the library, in a callback, until this one has marked and asked. */
static void without_the_lock(void) {
  long out[2][64], in[64];
  int list[2] = {40, 42}, there = 0;
  MPI_Request send, other, receive;
  pthread_t thread;
  for (int i = 0; i < 64; i++) out[0][i] = out[1][i] = 100 * rank + i;
  MPI_Psend_init(out[0], 64, 1, MPI_LONG, to, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
  MPI_Precv_init(in, 32, 2, MPI_LONG, from, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
  MPI_Psend_init(out[1], 64, 1, MPI_LONG, MPI_PROC_NULL, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &other);
  MPI_Start(&receive);
  MPI_Start(&send);
  MPI_Start(&other);
  MPI_Pready_range(0, 63, send);
  while (!there) MPI_Parrived(receive, 31, &there);
  pthread_create(&thread, NULL, stay_inside, NULL);
  while (!atomic_load(&inside)) sched_yield();
  MPI_Pready(5, other);
  MPI_Pready_range(6, 39, other);
  MPI_Pready_list(2, list, other);
  MPI_Parrived(receive, 7, &there);
  CHECK(there && in[14] == 100 * from + 14 && in[15] == 100 * from + 15);
  atomic_store(&go_on, 1);
  pthread_join(thread, NULL);
  MPI_Pready_range(0, 4, other);
  MPI_Pready(41, other);
  MPI_Pready_range(43, 63, other);
  MPI_Wait(&other, MPI_STATUS_IGNORE);
  MPI_Wait(&send, MPI_STATUS_IGNORE);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  MPI_Request_free(&send);
  MPI_Request_free(&other);
  MPI_Request_free(&receive);
}

static void expect(int error, int error_class) {
  int got;
  MPI_Error_class(error, &got);
  CHECK(got == error_class);
}

static void errors(void) {
  int data[6] = {0}, twice[3] = {3, 4, 3}, flag;
  MPI_Request send, ordinary;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Psend_init(data, 6, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
  expect(MPI_Pready(0, send), MPI_ERR_REQUEST);
  for (int again = 0; again < 2; again++) {
    MPI_Start(&send);
    expect(MPI_Pready(6, send), MPI_ERR_ARG);
    expect(MPI_Pready(-1, send), MPI_ERR_ARG);
    expect(MPI_Pready_range(4, 6, send), MPI_ERR_ARG);
    expect(MPI_Pready_range(4, 3, send), MPI_ERR_ARG);
    expect(MPI_Pready_list(3, twice, send), MPI_ERR_ARG);
    expect(MPI_Pready_list(-1, twice, send), MPI_ERR_ARG);
    MPI_Pready(5, send);
    expect(MPI_Pready(5, send), MPI_ERR_ARG);
    expect(MPI_Pready_range(0, 5, send), MPI_ERR_ARG);
    MPI_Pready_list(2, twice, send);
    MPI_Test(&send, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    MPI_Pready_range(0, 2, send);
    expect(MPI_Pready(0, send), MPI_ERR_ARG);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    expect(MPI_Pready(0, send), MPI_ERR_REQUEST);
  }
  MPI_Request_free(&send);
  expect(MPI_Pready(0, MPI_REQUEST_NULL), MPI_ERR_REQUEST);
  MPI_Recv_init(data, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &ordinary);
  expect(MPI_Pready(0, ordinary), MPI_ERR_REQUEST);
  expect(MPI_Parrived(ordinary, 0, &flag), MPI_ERR_REQUEST);
  MPI_Request_free(&ordinary);
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  exchange(16, 8, 4, 12);     /* one message */
  exchange(300, 1, 100, 6);   /* a group of several words */
  exchange(128, 3000, 64, 4); /* several groups */
  exchange(8, 100000, 16, 4); /* each partition a message */
  without_the_lock();
  errors();
  MPI_Finalize();
  return 0;
}
