/* A job that has little left of something, from its start or from the moment when all ranks have met on. Everything
   that arrives is checked; each rank that has seen nothing wrong prints "exact". Usage: starved none limits are set
   around it starved start|later K        K file descriptors are free, no more can be had */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { kNumbers = 100000, kHighest = 256 };

static int rank, size;
static int out[kNumbers], in[kNumbers];

static void expect(int condition, const char* what) {
  if (condition) return;
  printf("wrong: %s, rank %d\n", what, rank);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 77);
}

/* Every descriptor up to a limit is taken, then `left` are given back. */
static void leave_descriptors(int left) {
  struct rlimit limit = {kHighest, kHighest};
  int taken[kHighest], count = 0, one;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) exit(2);
  while ((one = open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0) taken[count++] = one;
  while (left-- > 0 && count > 0) close(taken[--count]);
}

/* With everybody, not just with neighbours: connections that are made when first used. */
static void talk(int round) {
  for (int step = 1; step < size; ++step) {
    const int to = (rank + step) % size, from = (rank + size - step) % size;
    for (int count = 1; count <= kNumbers; count *= 100) {
      for (int i = 0; i < count; ++i) out[i] = rank * 1000003 + round + i;
      memset(in, 0, sizeof in);
      MPI_Sendrecv(out, count, MPI_INT, to, 7, in, count, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < count; ++i) expect(in[i] == from * 1000003 + round + i, "a message");
    }
  }
}

/* With memory of the program another thread of the rank helps, from the window's making on. */
static void use_a_window(int own) {
  static int memory[kNumbers];
  MPI_Win win;
  int* base = memory;
  if (own) MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  else MPI_Win_allocate(sizeof out, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < kNumbers; ++i) out[i] = rank + 3 * i;
  MPI_Put(out, kNumbers, MPI_INT, (rank + 1) % size, 0, kNumbers, MPI_INT, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < kNumbers; ++i) expect(base[i] == (rank + size - 1) % size + 3 * i, "a put");
  MPI_Win_free(&win);
}

int main(int argc, char** argv) {
  const char* when = argc > 1 ? argv[1] : "none";
  const int left = argc > 2 ? atoi(argv[2]) : 0;
  int sum = 0;
  if (strcmp(when, "start") == 0) leave_descriptors(left);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(when, "later") == 0) leave_descriptors(left);
  for (int round = 0; round < 3; ++round) talk(round);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(sum == size * (size - 1) / 2, "a sum");
  use_a_window(0);
  use_a_window(1);
  printf("exact\n");
  fflush(stdout);
  return MPI_Finalize();
}
