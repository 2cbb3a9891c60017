// ranks: 1 2 4
/* Several threads of each rank with one window each way (shared memory, messages), all at the same time: every thread's
 * flush waits for its own operations only, and no addition is lost. */
#include <pthread.h>

#include "check.h"

enum { kThreads = 3, kRounds = 200 };
static MPI_Win windows[2];
static int me, ranks;

static void* add(void* which) {
  static const long one = 1; /* the last additions are not over when the thread ends */
  const long thread = (long)which;
  long old;
  for (int i = 0; i < kRounds; i++) {
    const int to = (me + i) % ranks;
    MPI_Win win = windows[i % 2];
    MPI_Fetch_and_op(&one, &old, MPI_LONG, to, thread, MPI_SUM, win);
    MPI_Win_flush(to, win);
    CHECK(old >= 0 && old < 2L * ranks * kRounds);
    MPI_Accumulate(&one, 1, MPI_LONG, to, thread, 1, MPI_LONG, MPI_SUM, win);
    if (i % 7 == 0) MPI_Win_flush_all(win);
  }
  return NULL;
}

int main(int argc, char** argv) {
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  CHECK(level == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  long *memory[2], sum = 0, all;
  MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory[0], &windows[0]);
  memory[1] = malloc(8 * sizeof(long));
  MPI_Win_create(memory[1], 8 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &windows[1]);
  for (int i = 0; i < 8; i++) memory[0][i] = memory[1][i] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 2; i++) MPI_Win_lock_all(0, windows[i]);
  pthread_t threads[kThreads];
  for (long t = 0; t < kThreads; t++) CHECK(pthread_create(&threads[t], NULL, add, (void*)t) == 0);
  for (int t = 0; t < kThreads; t++) pthread_join(threads[t], NULL);
  for (int i = 0; i < 2; i++) MPI_Win_unlock_all(windows[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 8; i++) sum += memory[0][i] + memory[1][i];
  MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  CHECK(all == 2L * ranks * kThreads * kRounds);
  for (int i = 0; i < 2; i++) MPI_Win_free(&windows[i]);
  free(memory[1]);
  done();
  return 0;
}
