/* What the hostile driver (hostile.py) runs: every byte that arrives is checked, until rank 0 says that it is enough.
   Each rank that has seen nothing wrong prints "exact". Usage: program pingpong|alltoall|window|collectives|away
   SECONDS */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

enum { kMost = 300000, kBlock = 20000 };

static int rank, size;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The i-th number that `from` sends to `to` in this round. */
static unsigned number(int from, int to, int round, int i) {
  return (unsigned)i * 2654435761u + (unsigned)from * 7919 + (unsigned)to * 104729 + (unsigned)round * 15485863;
}

static void fill(unsigned* at, int n, int from, int to, int round) {
  for (int i = 0; i < n; ++i) at[i] = number(from, to, round, i);
}

static void check(const unsigned* at, int n, int from, int to, int round, const char* what) {
  for (int i = 0; i < n; ++i) {
    if (at[i] == number(from, to, round, i)) continue;
    printf("wrong: %s, rank %d, round %d, from %d, number %d of %d\n", what, rank, round, from, i, n);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 77);
  }
}

static void* memory(size_t bytes) {
  void* at = malloc(bytes);
  if (!at) {
    fprintf(stderr, "program: no memory for its own buffers\n");
    MPI_Abort(MPI_COMM_WORLD, 78);
  }
  return at;
}

/* Sizes from nothing to more than every eager limit. */
static int length(int round) {
  static const int lengths[] = {0, 1, 13, 200, 2000, 17000, 140000, kMost};
  return lengths[(unsigned)round % 8];
}

static unsigned *out, *in;

static void pingpong(int round) {
  const int n = length(round);
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size, from = (rank + size - step) % size;
    MPI_Request requests[2];
    memset(in, 0, sizeof(unsigned) * (size_t)n);
    fill(out, n, rank, to, round);
    if (round % 3 == 0) {
      MPI_Isend(out, n, MPI_UNSIGNED, to, step, MPI_COMM_WORLD, &requests[0]);
      MPI_Recv(in, n, MPI_UNSIGNED, round % 2 ? from : MPI_ANY_SOURCE, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else {
      MPI_Irecv(in, n, MPI_UNSIGNED, from, step, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(out, n, MPI_UNSIGNED, to, step, MPI_COMM_WORLD, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    check(in, n, from, rank, round, "a message");
  }
}

static void alltoall(int round) {
  const int n = length(round) < kBlock ? length(round) : kBlock;
  for (int to = 0; to < size; ++to) fill(out + (size_t)to * (size_t)n, n, rank, to, round);
  memset(in, 0, sizeof(unsigned) * (size_t)n * (size_t)size);
  MPI_Alltoall(out, n, MPI_UNSIGNED, in, n, MPI_UNSIGNED, MPI_COMM_WORLD);
  for (int from = 0; from < size; ++from) check(in + (size_t)from * (size_t)n, n, from, rank, round, "alltoall");
}

/* Puts to everybody, gets back what was put, and counts at rank 0. */
static void window(int round) {
  const int n = 1 + length(round) / 40;
  unsigned* base;
  MPI_Win win;
  const MPI_Aint bytes = (MPI_Aint)sizeof(unsigned) * (1 + (MPI_Aint)n * size);
  if (round % 2) {
    MPI_Win_allocate(bytes, sizeof(unsigned), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  } else {
    base = memory((size_t)bytes);
    MPI_Win_create(base, bytes, sizeof(unsigned), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  }
  base[0] = 0;
  MPI_Win_fence(0, win);
  for (int to = 0; to < size; ++to) {
    fill(out + (size_t)to * (size_t)n, n, rank, to, round);
    MPI_Put(out + (size_t)to * (size_t)n, n, MPI_UNSIGNED, to, 1 + (MPI_Aint)n * rank, n, MPI_UNSIGNED, win);
  }
  MPI_Win_fence(0, win);
  for (int from = 0; from < size; ++from) check(base + 1 + (size_t)n * (size_t)from, n, from, rank, round, "a put");
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  const unsigned one = 1;
  const int target = (rank + 1) % size;
  MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
  MPI_Get(in, n, MPI_UNSIGNED, target, 1 + (MPI_Aint)n * rank, n, MPI_UNSIGNED, win);
  MPI_Win_unlock(target, win);
  check(in, n, rank, target, round, "a get");
  for (int i = 0; i < 5; ++i) {
    MPI_Win_lock(i % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Accumulate(&one, 1, MPI_UNSIGNED, 0, 0, 1, MPI_UNSIGNED, MPI_SUM, win);
    MPI_Win_unlock(0, win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
  const unsigned counted = base[0];
  MPI_Win_unlock(rank, win);
  if (rank == 0 && counted != 5u * (unsigned)size) {
    printf("wrong: %u accumulated by %d ranks\n", counted, size);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 77);
  }
  MPI_Win_free(&win);
  if (round % 2 == 0) free(base);
}

static void collectives(int round) {
  const int n = length(round) < kBlock ? length(round) : kBlock, root = round % size;
  MPI_Comm comm;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm); /* the other way round */
  fill(out, n, root, 0, round);
  if (rank != root) memset(out, 0, sizeof(unsigned) * (size_t)n);
  MPI_Bcast(out, n, MPI_UNSIGNED, size - 1 - root, comm);
  check(out, n, root, 0, round, "bcast");
  fill(out, n, rank, 0, round);
  MPI_Allreduce(out, in, n, MPI_UNSIGNED, MPI_BXOR, comm);
  for (int from = 0; from < size; ++from) {
    for (int i = 0; i < n; ++i) in[i] ^= number(from, 0, round, i);
  }
  unsigned left = 0;
  for (int i = 0; i < n; ++i) left |= in[i];
  if (left != 0) {
    printf("wrong: allreduce, rank %d, round %d\n", rank, round);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 77);
  }
  fill(out, n, rank, 1, round);
  MPI_Allgather(out, n, MPI_UNSIGNED, in, n, MPI_UNSIGNED, comm);
  for (int from = 0; from < size; ++from)
    check(in + (size_t)(size - 1 - from) * (size_t)n, n, from, 1, round, "allgather");
  MPI_Comm_free(&comm);
}

/* Rank 0 computes for a while without a call; the others want something of it. */
static void away(int round) {
  if (rank == 0) {
    volatile double x = 0;
    const double end = now() + 0.15;
    while (now() < end) x += 1;
  }
  pingpong(round);
}

static void on_alarm(int signal) { (void)signal; }

/* Every system call that waits is interrupted again and again. */
static void interrupt_calls(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm; /* without SA_RESTART */
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 700}, {0, 700}};
  setitimer(ITIMER_REAL, &often, NULL);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*play)(int round);
  } modes[] = {
      {"pingpong", pingpong}, {"alltoall", alltoall}, {"window", window}, {"collectives", collectives}, {"away", away}};
  void (*play)(int) = NULL;
  for (size_t i = 0; argc == 3 && i < sizeof modes / sizeof *modes; ++i) {
    if (strcmp(argv[1], modes[i].name) == 0) play = modes[i].play;
  }
  if (!play) {
    fprintf(stderr, "program: mode and seconds\n");
    return 2;
  }
  if (getenv("HOSTILE_INTERRUPTS")) interrupt_calls();
  int level;
  MPI_Init_thread(&argc, &argv, getenv("HOSTILE_THREADS") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  out = memory(sizeof(unsigned) * (kMost + (size_t)kBlock * (size_t)size));
  in = memory(sizeof(unsigned) * (kMost + (size_t)kBlock * (size_t)size));
  const double end = now() + atof(argv[2]);
  int round = 0;
  for (int again = 1; again; ++round) {
    play(round);
    again = now() < end || round < 8;
    MPI_Bcast(&again, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  free(out);
  free(in);
  printf("exact\n");
  fflush(stdout);
  return MPI_Finalize();
}
