// ranks: 1 2 3
// progress: default event
/* Continuations of several threads (mpix.h): a continuation request for all, and one for each thread; the callbacks
 * take a lock of the program's, which threads hold while they call MPI; threads that only wait run what others have
 * registered. */
#include <mpix.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"

enum { kThreads = 4, kMessages = 400, kWindow = 8 };
static int rank, size, to, from;
static MPI_Request shared;
static atomic_int over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct Slot {
  int out, in, thread, number;
  atomic_int busy;
  MPI_Status statuses[2];
};

static int finished(int code, void *data) {
  struct Slot *slot = data;
  CHECK(code == MPI_SUCCESS);
  pthread_mutex_lock(&lock);
  CHECK(slot->in == from * 1000000 + slot->thread * 10000 + slot->number);
  CHECK(slot->statuses[0].MPI_SOURCE == from && slot->statuses[0].MPI_TAG == slot->thread);
  pthread_mutex_unlock(&lock);
  atomic_fetch_add(&over, 1);
  atomic_store(&slot->busy, 0);
  return MPI_SUCCESS;
}

/* Messages to the next rank and from the one before, in a window of slots. */
static void *exchange(void *argument) {
  int me = *(int *)argument, own = me % 2;
  struct Slot slots[kWindow];
  MPI_Request conts = shared;
  if (own) {
    MPIX_Continue_init(me == 1 ? MPIX_CONT_POLL_ONLY : 0, me == 3 ? 2 : 0, MPI_INFO_NULL, &conts);
    MPI_Start(&conts);
  }
  for (int i = 0; i < kWindow; i++) atomic_init(&slots[i].busy, 0);
  for (int i = 0; i < kMessages; i++) {
    struct Slot *slot = &slots[i % kWindow];
    MPI_Request requests[2];
    for (int flag; atomic_load(&slot->busy);) {
      if (own) {
        MPI_Test(&conts, &flag, MPI_STATUS_IGNORE);
        if (flag) MPI_Start(&conts);
      } else {
        MPI_Request_get_status(conts, &flag, MPI_STATUS_IGNORE);
      }
    }
    atomic_store(&slot->busy, 1);
    slot->thread = me, slot->number = i;
    slot->out = rank * 1000000 + me * 10000 + i;
    pthread_mutex_lock(&lock); /* held in a call of MPI, as the callbacks want it */
    MPI_Irecv(&slot->in, 1, MPI_INT, from, me, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&slot->out, 1, MPI_INT, to, me, MPI_COMM_WORLD, &requests[1]);
    pthread_mutex_unlock(&lock);
    MPIX_Continueall(2, requests, finished, slot, MPIX_CONT_REQBUF_VOLATILE, slot->statuses, conts);
  }
  for (int i = 0; i < kWindow && !own; i++) {
    for (int flag; atomic_load(&slots[i].busy);) MPI_Request_get_status(conts, &flag, MPI_STATUS_IGNORE);
  }
  if (own) {
    MPI_Wait(&conts, MPI_STATUS_IGNORE);
    MPI_Request_free(&conts);
  }
  for (int i = 0; i < kWindow; i++) CHECK(!atomic_load(&slots[i].busy));
  return NULL;
}

/* Registered by one thread; another waits for the message that the callback sends. */
static int send_on(int code, void *data) {
  (void)code;
  MPI_Send(data, 1, MPI_INT, rank, 21, MPI_COMM_WORLD);
  return MPI_SUCCESS;
}

static void *wait_for_it(void *argument) {
  MPI_Recv(argument, 1, MPI_INT, rank, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return NULL;
}

static void run_by_others(void) {
  for (int i = 0; i < 50; i++) {
    int in = -1, out = i, got = -1;
    MPI_Request request;
    pthread_t thread;
    MPI_Irecv(&in, 1, MPI_INT, from, 20, MPI_COMM_WORLD, &request);
    /* First the receive: the callback may run inside of MPIX_Continue, and its send may wait for it (TERN_CHECK). */
    pthread_create(&thread, NULL, wait_for_it, &got);
    MPIX_Continue(&request, send_on, &in, 0, MPI_STATUS_IGNORE, shared);
    MPI_Send(&out, 1, MPI_INT, to, 20, MPI_COMM_WORLD);
    pthread_join(thread, NULL); /* without a call of MPI */
    CHECK(got == i);
  }
}

int main(int argc, char **argv) {
  int provided, numbers[kThreads];
  pthread_t threads[kThreads];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  MPIX_Continue_init(0, 0, MPI_INFO_NULL, &shared);
  MPI_Start(&shared);
  for (int i = 0; i < kThreads; i++) {
    numbers[i] = i;
    pthread_create(&threads[i], NULL, exchange, &numbers[i]);
  }
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  CHECK(atomic_load(&over) == kThreads * kMessages);
  run_by_others();
  MPI_Wait(&shared, MPI_STATUS_IGNORE);
  MPI_Request_free(&shared);
  MPI_Finalize();
  return 0;
}
