// What TERN_CHECK is to find where threads disturb each other once, and what it must not: `threads_program CASE`, 2
// ranks or more. The case that begins with "right_" is a correct program.
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "cases.h"

static int rank;

static void in_two_threads(void* (*other)(void*), void* argument, void (*mine)(void)) {
  pthread_t thread;
  pthread_create(&thread, NULL, other, argument);
  mine();
  pthread_join(thread, NULL);
}

// Changes the buffer once, so long after the call begins.
static volatile int calls;
static int soon[8];
static void* write_soon(void* milliseconds) {
  while (!calls) sched_yield();
  struct timespec pause = {0, *(const int*)milliseconds * 1000000L};
  nanosleep(&pause, NULL);
  soon[3] = 7;
  return NULL;
}
static void send_soon(void) {
  calls = 1;
  MPI_Send(soon, 8, MPI_INT, 1, 1, MPI_COMM_WORLD);
}
static void write_after(int milliseconds) {
  int got[8];
  if (rank == 0) in_two_threads(write_soon, &milliseconds, send_soon);
  if (rank == 1) MPI_Recv(got, 8, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void threads_write_at_once(void) { write_after(0); }
static void threads_write_late(void) { write_after(14); }

// Two threads find one message before one of them receives it.
static pthread_barrier_t meeting;
static void probe_one(int second) {
  int got[2], count;
  MPI_Status status;
  MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_INT, &count);
  pthread_barrier_wait(&meeting);
  if (second) pthread_barrier_wait(&meeting);
  MPI_Recv(got, count, MPI_INT, 0, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (!second) pthread_barrier_wait(&meeting);
}
static void* probe_second(void* nothing) {
  probe_one(1);
  return nothing;
}
static void probe_first(void) { probe_one(0); }
static void send_many(int first, int messages) {
  int values[2] = {1, 2};
  for (int i = 0; i < messages; ++i) MPI_Send(values, i == 0 ? first : 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
}
static void threads_probe_one_message(void) {
  pthread_barrier_init(&meeting, NULL, 2);
  if (rank == 0) send_many(2, 2);
  if (rank == 1) in_two_threads(probe_second, NULL, probe_first);
}

// Threads that look for messages, and take them alone; one that takes what the other has found.
static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
static int taken;
static void* take_messages(void* nothing) {
  while (1) {
    int there, got;
    MPI_Iprobe(0, 3, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    pthread_mutex_lock(&alone);
    const int done = taken == 20;
    if (!done) MPI_Iprobe(0, 3, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    if (!done && there) {
      MPI_Recv(&got, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      ++taken;
    }
    pthread_mutex_unlock(&alone);
    if (done) return nothing;
  }
}
static void take_all(void) { take_messages(NULL); }
static void* take_found(void* nothing) {
  int got;
  MPI_Recv(&got, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return nothing;
}
static void nobody(void) {}
static void right_threads_that_probe(void) {
  if (rank == 0) send_many(1, 24);
  if (rank == 1) {
    in_two_threads(take_messages, NULL, take_all);
    take_found(NULL);
    in_two_threads(take_found, NULL, nobody);
    MPI_Probe(0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    in_two_threads(take_found, NULL, nobody);
    take_found(NULL);
  }
}

int main(int argc, char** argv) {
  const struct Case cases[] = {{"threads_write_at_once", threads_write_at_once},
                               {"threads_write_late", threads_write_late},
                               {"threads_probe_one_message", threads_probe_one_message},
                               {"right_threads_that_probe", right_threads_that_probe}};
  return run_case(argc, argv, cases, sizeof cases / sizeof cases[0], MPI_THREAD_MULTIPLE, &rank);
}
