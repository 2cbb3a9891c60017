/* threads [exit|leave|deadlock]: POSIX threads of a simulated rank, without and with MPI. Each line says what is wrong;
 * the last is "rank N ok". */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kThreads = 4, kRounds = 50 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static int rank, count, turn, serial, wrong;
static __thread int mine = 7;
static MPI_Comm comms[kThreads];

#define CHECK(true_) \
  if (!(true_)) wrong = 1, printf("rank %d, line %d: not true: %s\n", rank, __LINE__, #true_)

static void *work(void *argument) {
  const int me = (int)(long)argument;
  CHECK(mine == 7);
  mine = 100 + me;
  for (int i = 0; i < kRounds; i++) { /* read, lose the turn, write: only the mutex keeps the count right */
    pthread_mutex_lock(&mutex);
    const int before = count;
    sched_yield();
    count = before + 1;
    pthread_mutex_unlock(&mutex);
  }
  if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) serial++;
  CHECK(count == kThreads * kRounds);
  pthread_mutex_lock(&mutex); /* one after the other */
  while (turn != me) pthread_cond_wait(&condition, &mutex);
  turn++;
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&mutex);
  sem_post(&semaphore);
  int sum = 0; /* MPI, each on a communicator of its own */
  for (int i = 0; i < 5; i++) {
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comms[me]);
    int size;
    MPI_Comm_size(comms[me], &size);
    CHECK(sum == me * size);
  }
  CHECK(mine == 100 + me);
  if (me == 1) pthread_exit((void *)(long)(me + 1000));
  return (void *)(long)(me + 1000);
}

static void *leave(void *argument) { exit(*(int *)argument); }

static void *lock(void *argument) {
  pthread_mutex_lock(argument);
  return NULL;
}

static void check_kinds(void) {
  pthread_mutexattr_t kind;
  pthread_mutex_t recursive, checked;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&recursive, &kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&checked, &kind);
  CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_trylock(&recursive) == 0);
  CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
  CHECK(pthread_mutex_unlock(&recursive) == EPERM);
  CHECK(pthread_mutex_lock(&checked) == 0 && pthread_mutex_lock(&checked) == EDEADLK);
  CHECK(pthread_mutex_trylock(&checked) == EBUSY && pthread_mutex_unlock(&checked) == 0);
  CHECK(pthread_mutex_destroy(&recursive) == 0 && pthread_mutex_destroy(&checked) == 0);
  struct timespec until;
  const double began = MPI_Wtime();
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2;
  pthread_mutex_lock(&mutex);
  CHECK(pthread_cond_timedwait(&condition, &mutex, &until) == ETIMEDOUT);
  CHECK(MPI_Wtime() - began >= 2 && MPI_Wtime() - began < 2.1);
  CHECK(pthread_mutex_timedlock(&mutex, &until) == ETIMEDOUT && pthread_mutex_unlock(&mutex) == 0);
  CHECK(pthread_mutex_unlock(&mutex) == 0); /* as the C library: a normal one that nobody has */
  CHECK(sem_timedwait(&semaphore, &until) == -1 && errno == ETIMEDOUT);
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec++;
  pthread_mutex_lock(&mutex);
  CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
  CHECK(MPI_Wtime() - began >= 3 && MPI_Wtime() - began < 3.1);
  pthread_mutex_init(&mutex, NULL); /* the memory's next mutex: nobody has it */
  CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
}

int main(int argc, char **argv) {
  const char *how = argc > 1 ? argv[1] : "";
  int provided;
  pthread_t threads[kThreads], other;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  pthread_barrier_init(&barrier, NULL, kThreads);
  sem_init(&semaphore, 0, 0);
  for (int i = 0; i < kThreads; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  mine = 8;
  const pthread_t self = pthread_self();
  for (long i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < kThreads; i++) sem_wait(&semaphore);
  for (int i = 0; i < kThreads; i++) {
    void *result;
    CHECK(!pthread_equal(threads[i], self));
    CHECK(pthread_join(threads[i], &result) == 0 && (long)result == i + 1000);
  }
  CHECK(mine == 8 && serial == 1 && turn == kThreads && pthread_equal(self, pthread_self()));
  check_kinds();
  if (!strcmp(how, "exit")) {
    int code = 5;
    pthread_create(&other, NULL, leave, &code);
    pthread_join(other, NULL);
  }
  if (!strcmp(how, "deadlock")) {
    pthread_mutex_lock(&mutex);
    pthread_create(&other, NULL, lock, &mutex);
    pthread_join(other, NULL);
  }
  if (!wrong) printf("rank %d ok\n", rank);
  MPI_Finalize();
  if (!strcmp(how, "leave")) pthread_exit(NULL);
  return wrong;
}
