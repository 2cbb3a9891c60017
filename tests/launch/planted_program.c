/* Programs with a planted cause of waiting, one for each name; `balanced` has none. The call that mpiexec --explain is
 * to find stands on the line with the case's name. Work is sleep, which the simulator's clock knows. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static char data[1 << 20], other[1 << 20];
#define WORLD MPI_COMM_WORLD
#define ANY MPI_STATUS_IGNORE

static void work(int us) { usleep((useconds_t)us); }
static void work_if(int condition, int long_us, int short_us) { work(condition ? long_us : short_us); }

static void late_sender(void) {
  work_if(rank == 0, 2000, 100);
  if (rank == 0) MPI_Send(data, 8, MPI_BYTE, 1, 0, WORLD);
  if (rank == 1) MPI_Recv(data, 8, MPI_BYTE, 0, 0, WORLD, ANY); /* late_sender */
}

static void late_sender_in_waitall(void) {
  MPI_Request requests[2];
  if (rank == 1) {
    for (int i = 0; i < 2; i++) MPI_Irecv(data + 8 * i, 8, MPI_BYTE, 0, i, WORLD, &requests[i]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); /* late_sender_in_waitall */
  } else {
    work(1500);
    for (int i = 0; i < 2; i++) MPI_Send(data, 8, MPI_BYTE, 1, i, WORLD);
  }
}

static void chain(void) {
  if (rank != 0) MPI_Recv(data, 8, MPI_BYTE, rank - 1, 0, WORLD, ANY); /* chain */
  work(500);
  MPI_Send(data, 8, MPI_BYTE, (rank + 1) % size, 0, WORLD);
  if (rank == 0) MPI_Recv(data, 8, MPI_BYTE, size - 1, 0, WORLD, ANY);
}

static void late_receiver(void) {
  work_if(rank == 1, 3000, 100);
  if (rank == 0) MPI_Send(data, sizeof data, MPI_BYTE, 1, 0, WORLD); /* late_receiver */
  if (rank == 1) MPI_Recv(data, sizeof data, MPI_BYTE, 0, 0, WORLD, ANY);
}

static void late_receiver_in_wait(void) {
  MPI_Request request;
  work_if(rank == 1, 3000, 100);
  if (rank == 0) {
    MPI_Isend(data, sizeof data, MPI_BYTE, 1, 0, WORLD, &request);
    MPI_Wait(&request, ANY); /* late_receiver_in_wait */
  } else {
    MPI_Recv(data, sizeof data, MPI_BYTE, 0, 0, WORLD, ANY);
  }
}

static void synchronous(void) {
  work_if(rank == 1, 2000, 100);
  if (rank == 0) MPI_Ssend(data, 8, MPI_BYTE, 1, 0, WORLD); /* synchronous */
  if (rank == 1) MPI_Recv(data, 8, MPI_BYTE, 0, 0, WORLD, ANY);
}

static void late_rank(void) {
  double sum = 1;
  work_if(rank == 3, 2100, 100);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, WORLD); /* late_rank */
}

static void imbalance(void) {
  double sum = 1;
  work(300 * (rank + 1));
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, WORLD); /* imbalance */
}

static void late_root(void) {
  work_if(rank == 0, 2000, 100);
  MPI_Bcast(data, 100, MPI_BYTE, 0, WORLD); /* late_root */
}

static void late_leaf(void) {
  double mine = 1, sum;
  work_if(rank == 2, 2000, 100);
  MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, WORLD); /* late_leaf */
}

static void just_above_eager(void) {
  if (rank == 0) MPI_Recv(data, 9000, MPI_BYTE, 1, 0, WORLD, ANY);
  if (rank == 1) MPI_Send(data, 9000, MPI_BYTE, 0, 0, WORLD); /* just_above_eager */
  if (rank == 1) MPI_Recv(data, 8, MPI_BYTE, 0, 0, WORLD, ANY);
  if (rank == 0) MPI_Send(data, 8, MPI_BYTE, 1, 0, WORLD);
}

static void copied_twice(void) {
  for (int i = 0; i < 12 && rank == 0; i++) MPI_Send(data, 4000, MPI_BYTE, 1, i, WORLD);
  work(60);
  for (int i = 0; i < 12 && rank == 1; i++) {
    MPI_Recv(data, 4000, MPI_BYTE, 0, i, WORLD, ANY); /* copied_twice */
  }
}

static void small_messages(void) {
  for (int i = 0; i < 64 && rank == 0; i++) {
    MPI_Send(data + 8 * i, 8, MPI_BYTE, 1, 0, WORLD); /* small_messages */
  }
  for (int i = 0; i < 64 && rank == 1; i++) MPI_Recv(data + 8 * i, 8, MPI_BYTE, 0, 0, WORLD, ANY);
  work(30);
  if (rank == 1) MPI_Send(data, 0, MPI_BYTE, 0, 1, WORLD);
  if (rank == 0) MPI_Recv(data, 0, MPI_BYTE, 1, 1, WORLD, ANY);
}

static void polling(void) {
  MPI_Request request;
  int done = 0;
  if (rank == 1) {
    MPI_Irecv(data, 8, MPI_BYTE, 0, 0, WORLD, &request);
    while (!done) MPI_Test(&request, &done, ANY); /* polling */
  } else {
    work(500);
    MPI_Send(data, 8, MPI_BYTE, 1, 0, WORLD);
  }
}

static void needless_barrier(void) {
  double sum = 1;
  work(5);
  MPI_Barrier(WORLD); /* needless_barrier */
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, WORLD);
}

static void broadcast_by_hand(void) {
  for (int to = 1; to < size && rank == 0; to++) {
    MPI_Send(data, 100000, MPI_BYTE, to, 0, WORLD); /* broadcast_by_hand */
  }
  if (rank != 0) MPI_Recv(data, 100000, MPI_BYTE, 0, 0, WORLD, ANY);
  work(20);
}

static void gather_by_hand(void) {
  work_if(rank == 1, 800, 100);
  for (int from = 1; from < size && rank == 0; from++) {
    MPI_Recv(data, 8, MPI_BYTE, from, 0, WORLD, ANY); /* gather_by_hand */
  }
  if (rank != 0) MPI_Send(data, 8, MPI_BYTE, 0, 0, WORLD);
}

static MPI_Win window;

static void window_lock(void) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window); /* window_lock */
  MPI_Put(data, 8, MPI_BYTE, 0, 0, 8, MPI_BYTE, window);
  work(300);
  MPI_Win_unlock(0, window); /* window_lock */
}

static void late_at_fence(void) {
  work_if(rank == 2, 1500, 100);
  MPI_Put(data, 8, MPI_BYTE, (rank + 1) % size, 0, 8, MPI_BYTE, window);
  MPI_Win_fence(0, window); /* late_at_fence */
}

static void small_accesses(void) {
  static MPI_File file;
  static MPI_Offset at;
  if (!file) MPI_File_open(WORLD, getenv("PLANTED_FILE"), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
  for (int i = 0; i < 32; i++, at += 256 * size) {
    MPI_File_write_at(file, at + 256 * rank, data, 256, MPI_BYTE, ANY); /* small_accesses */
  }
}

static void made_often(void) {
  MPI_Comm comm;
  MPI_Comm_dup(WORLD, &comm); /* made_often */
  MPI_Comm_free(&comm);
}

static void collectives_in_a_row(void) {
  for (int i = 0; i < 6; i++) {
    double sum = i;
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, WORLD); /* collectives_in_a_row */
  }
  work(30);
}

static void balanced(void) {
  double sum = 1;
  work(500);
  MPI_Sendrecv(data, 1000, MPI_BYTE, (rank + 1) % size, 0, other, 1000, MPI_BYTE, (rank + size - 1) % size, 0, WORLD,
               ANY);
  work(500);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, WORLD);
}

// --- Two threads a rank, each with a communicator of its own.

static MPI_Comm comms[2];

static void turn(int us) {  // work of a core, not sleep
  const double until = MPI_Wtime() + us * 1e-6;
  while (MPI_Wtime() < until) continue;
}

static void balanced_threads(int thread) {
  double sum = 1;
  work(500);
  MPI_Sendrecv(data + 1000 * thread, 1000, MPI_BYTE, (rank + 1) % size, 0, other + 1000 * thread, 1000, MPI_BYTE,
               (rank + size - 1) % size, 0, comms[thread], ANY);
  work(500);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, comms[thread]);
}

/* As many threads as there are turns of cores: who waits for whom is the system's choice. */
static void balanced_busy_threads(int thread) {
  double sum = 1;
  MPI_Request requests[2];
  turn(300);
  MPI_Irecv(other + 1000 * thread, 1000, MPI_BYTE, (rank + size - 1) % size, 0, comms[thread], &requests[0]);
  MPI_Isend(data + 1000 * thread, 1000, MPI_BYTE, (rank + 1) % size, 0, comms[thread], &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  turn(300);
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, comms[thread]);
}

/* The first threads are as fast as each other. */
static void late_thread(int thread) {
  work_if(rank == 0 && thread == 1, 6000, 500);
  if (rank == 0) MPI_Send(data, 8, MPI_BYTE, 1, 0, comms[thread]);
  if (rank == 1) {
    if (thread == 0) MPI_Recv(data, 8, MPI_BYTE, 0, 0, comms[thread], ANY);
    if (thread == 1) MPI_Recv(other, 8, MPI_BYTE, 0, 0, comms[thread], ANY); /* late_thread */
  }
}

static void (*threads_step)(int);
static int steps;

static void *run_thread(void *number) {
  for (int step = 0; step < steps; step++) threads_step((int)(long)number);
  return NULL;
}

static void run_threads(void (*step)(int)) {
  pthread_t second;
  threads_step = step;
  for (int i = 0; i < 2; i++) MPI_Comm_dup(WORLD, &comms[i]);
  pthread_create(&second, NULL, run_thread, (void *)1L);
  run_thread(NULL);
  pthread_join(second, NULL);
  for (int i = 0; i < 2; i++) MPI_Comm_free(&comms[i]);
}

static const struct {
  const char *name;
  void (*step)(int thread);
} threaded[] = {
    {"balanced_threads", balanced_threads},
    {"balanced_busy_threads", balanced_busy_threads},
    {"late_thread", late_thread},
};

#define CASE(name) \
  { #name, name }
static const struct {
  const char *name;
  void (*step)(void);
} cases[] = {
    CASE(late_sender),    CASE(late_sender_in_waitall),
    CASE(chain),          CASE(late_receiver),
    CASE(synchronous),    CASE(late_receiver_in_wait),
    CASE(late_rank),      CASE(imbalance),
    CASE(late_root),      CASE(late_leaf),
    CASE(copied_twice),   CASE(just_above_eager),
    CASE(small_messages), CASE(polling),
    CASE(made_often),     CASE(needless_barrier),
    CASE(gather_by_hand), CASE(broadcast_by_hand),
    CASE(window_lock),    CASE(late_at_fence),
    CASE(small_accesses), CASE(collectives_in_a_row),
    CASE(balanced),
};

int main(int argc, char **argv) {
  int provided;
  const char *wanted = argc > 1 ? argv[1] : "";
  MPI_Init_thread(&argc, &argv, strstr(wanted, "thread") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(WORLD, &rank);
  MPI_Comm_size(WORLD, &size);
  steps = argc > 2 ? atoi(argv[2]) : 40;
  const int windows = strstr(wanted, "window") || strstr(wanted, "fence");
  if (windows) MPI_Win_create(other, 64, 1, MPI_INFO_NULL, WORLD, &window);
  if (strstr(wanted, "fence")) MPI_Win_fence(0, window);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int step = 0; step < steps && strcmp(wanted, cases[i].name) == 0; step++) cases[i].step();
  }
  for (size_t i = 0; i < sizeof threaded / sizeof *threaded; i++) {
    if (strcmp(wanted, threaded[i].name) == 0) run_threads(threaded[i].step);
  }
  if (windows) MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
