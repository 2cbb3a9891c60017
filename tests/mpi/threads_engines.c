// ranks: 2 4
// paths: shm
/* MPI_THREAD_MULTIPLE: threads with communicators of their own, whose short messages need none but their engine. What
 * such a thread still owes to the rest of its rank, and the rest to it. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { kMany = 300, kSome = 512, kLarge = 1 << 20, kRounds = 40 };
static int rank, partner, first;
static MPI_Comm a, b;
static unsigned char many[kMany][kSome], large[kLarge];

static void ping_pong(MPI_Comm comm, int rounds) {
  int in = 0;
  for (int i = 0; i < rounds; i++) {
    if (first) MPI_Send(&i, 1, MPI_INT, partner, 3, comm);
    MPI_Recv(&in, 1, MPI_INT, partner, 3, comm, MPI_STATUS_IGNORE);
    CHECK(in == i);
    if (!first) MPI_Send(&i, 1, MPI_INT, partner, 3, comm);
  }
}

/* More than a ring takes: the sends need the receiver. */
static void send_many(void) {
  for (int i = 0; i < kMany; i++) {
    fill(many[i], i, kSome);
    MPI_Send(many[i], kSome, MPI_BYTE, partner, 4, a);
  }
}
static void post_many(MPI_Request *requests) {
  for (int i = 0; i < kMany; i++) MPI_Irecv(many[i], kSome, MPI_BYTE, partner, 4, a, &requests[i]);
}
static void end_many(MPI_Request *requests) {
  MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; i++) CHECK(holds(many[i], i, kSome));
}

static int token;
static void *await_token(void *none) {
  MPI_Recv(&token, 1, MPI_INT, partner, 5, b, MPI_STATUS_IGNORE);
  return none;
}
static void send_token(int value) { MPI_Send(&value, 1, MPI_INT, partner, 5, b); }

/* Receives of one communicator are posted, and the thread waits on another one. */
static void wait_elsewhere(void) {
  MPI_Request requests[kMany];
  ping_pong(a, kRounds);
  if (!first) {
    send_many();
    send_token(1);
    return;
  }
  post_many(requests);
  await_token(NULL);
  end_many(requests);
}

/* The thread that has posted them is outside of the library, and another one waits. */
static void be_outside(int busy) {
  MPI_Request requests[kMany];
  pthread_t waits;
  if (!first) {
    ping_pong(a, kRounds);
    if (busy) usleep(5000);
    send_many();
    send_token(2);
    return;
  }
  pthread_create(&waits, NULL, await_token, NULL);
  ping_pong(a, kRounds);
  post_many(requests);
  pthread_join(waits, NULL);
  CHECK(token == 2);
  end_many(requests);
}

/* A large message for a posted receive, whose thread is busy with short ones on another communicator until it has
 * come. */
static volatile int sent;
static void *send_large(void *none) {
  fill(large, 7, kLarge);
  MPI_Ssend(large, kLarge, MPI_BYTE, partner, 6, a);
  __atomic_store_n(&sent, 1, __ATOMIC_RELEASE);
  return none;
}
static void serve_others(void) {
  MPI_Request request;
  pthread_t sends;
  int go = 1;
  __atomic_store_n(&sent, 0, __ATOMIC_RELAXED);
  if (first) MPI_Irecv(large, kLarge, MPI_BYTE, partner, 6, a, &request);
  else pthread_create(&sends, NULL, send_large, NULL);
  while (go) {
    if (!first) go = !__atomic_load_n(&sent, __ATOMIC_ACQUIRE);
    if (!first) MPI_Send(&go, 1, MPI_INT, partner, 8, b);
    else MPI_Recv(&go, 1, MPI_INT, partner, 8, b, MPI_STATUS_IGNORE);
    ping_pong(b, 1);
  }
  if (first) MPI_Wait(&request, MPI_STATUS_IGNORE);
  else pthread_join(sends, NULL);
  if (first) CHECK(holds(large, 7, kLarge));
}

/* Waits for requests of both communicators, and of none of them, in one call. */
static void wait_for_both(void) {
  MPI_Comm comms[3] = {a, b, MPI_COMM_WORLD};
  MPI_Request requests[6];
  int out[3], in[3];
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < 3; i++) {
      out[i] = round * 3 + i;
      MPI_Irecv(&in[i], 1, MPI_INT, i == 1 ? MPI_ANY_SOURCE : partner, 9, comms[i], &requests[i]);
      MPI_Isend(&out[i], 1, MPI_INT, partner, 9, comms[i], &requests[3 + i]);
    }
    if (round % 2 == 0) {
      MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
    } else {
      for (int i = 0, at; i < 6; i++) MPI_Waitany(6, requests, &at, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 3; i++) CHECK(in[i] == out[i] && requests[i] == MPI_REQUEST_NULL);
  }
}

int main(int argc, char **argv) {
  int provided;
  MPI_Comm pair;
  setenv("TERN_ENGINES", "4", 0); /* also where a rank has one core */
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  partner = rank ^ 1;
  first = rank % 2 == 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &a);
  MPI_Comm_dup(MPI_COMM_WORLD, &b);
  for (int round = 0; round < 3; round++) {
    wait_elsewhere();
    be_outside(round == 1);
    serve_others();
    wait_for_both();
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair); /* not all ranks of the node */
    int other, me;
    MPI_Comm_rank(pair, &me);
    MPI_Sendrecv(&rank, 1, MPI_INT, !me, 1, &other, 1, MPI_INT, !me, 1, pair, MPI_STATUS_IGNORE);
    CHECK(other == partner);
    MPI_Comm_free(&pair);
  }
  MPI_Comm_free(&a);
  MPI_Comm_free(&b);
  done();
  return 0;
}
