// ranks: 1 2 4
// paths: shm tcp
/* MPI_THREAD_MULTIPLE: threads that put, get and flush, in windows of their own and in one together, so many times that
 * these calls do without the rank's lock where the memory can be reached; between them calls of every other kind. */
#include <pthread.h>

#include "check.h"

enum { kThreads = 4, kRounds = 6000, kLongs = 16, kLarge = 8192 };
static int rank, size, to, from;
static MPI_Win own[kThreads], common;
static long *memory;
/* The common window: for each origin and thread kLongs numbers, a counter, and kLarge bytes for each thread. */
static long counter_at, large_at;

static long place_of(int origin, int thread) { return ((long)origin * kThreads + thread) * kLongs; }

static void move(MPI_Win win, long at, long value) {
  long out[kLongs], in[kLongs] = {0};
  for (int i = 0; i < kLongs; i++) out[i] = value + i;
  for (int i = 0; i < kLongs; i += 2) MPI_Put(out + i, 2, MPI_LONG, to, at + i, 2, MPI_LONG, win);
  if (value % 2) MPI_Win_flush(to, win);
  else MPI_Win_flush_all(win);
  for (int i = 0; i < kLongs; i += 4) MPI_Get(in + i, 4, MPI_LONG, to, at + i, 4, MPI_LONG, win);
  MPI_Win_flush_local(to, win);
  CHECK(memcmp(in, out, sizeof in) == 0);
}

static int class_of(int error) {
  int class;
  MPI_Error_class(error, &class);
  return class;
}

/* Calls of the kinds that close the window's gate, and calls that are wrong. Each counts once at the target. */
static void another_call(int thread, int round) {
  static const long one = 1;
  const long there = large_at + thread * (kLarge / (long)sizeof(long));
  long before = -1, big[kLarge / sizeof(long)], back[kLarge / sizeof(long)];
  void *value;
  int flag;
  MPI_Request request;
  switch ((round / 500 + thread) % 5) {
    case 0:
      MPI_Fetch_and_op(&one, &before, MPI_LONG, to, counter_at, MPI_SUM, common);
      MPI_Win_flush(to, common);
      CHECK(before >= 0);
      return;
    case 1:
      MPI_Win_get_attr(common, MPI_WIN_BASE, &value, &flag);
      CHECK(flag && value == memory);
      break;
    case 2:
      CHECK(class_of(MPI_Put(&one, 1, MPI_LONG, to, 1L << 40, 1, MPI_LONG, common)) == MPI_ERR_RMA_RANGE);
      CHECK(class_of(MPI_Put(&one, 1, MPI_LONG, size, 0, 1, MPI_LONG, common)) == MPI_ERR_RANK);
      CHECK(class_of(MPI_Get(&before, -1, MPI_LONG, to, 0, 1, MPI_LONG, common)) == MPI_ERR_COUNT);
      CHECK(class_of(MPI_Put(&one, 1, MPI_DATATYPE_NULL, to, 0, 1, MPI_LONG, common)) == MPI_ERR_TYPE);
      CHECK(MPI_Put(&one, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, common) == MPI_SUCCESS);
      break;
    case 3:
      fill(big, round, sizeof big);
      MPI_Put(big, sizeof big, MPI_BYTE, to, there, sizeof big, MPI_BYTE, common);
      MPI_Win_flush(to, common);
      MPI_Rget(back, kLarge / sizeof(long), MPI_LONG, to, there, kLarge / sizeof(long), MPI_LONG, common, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      CHECK(holds(back, round, sizeof back));
      break;
    default: break;
  }
  MPI_Accumulate(&one, 1, MPI_LONG, to, counter_at, 1, MPI_LONG, MPI_SUM, common);
}

static void *in_common(void *argument) {
  const int thread = (int)(long)argument;
  for (int i = 0; i < kRounds; i++) {
    move(common, place_of(rank, thread), (long)i * 1000 + thread);
    if (i % 500 == 0) another_call(thread, i);
  }
  return NULL;
}

/* The lock is given up and taken again. */
static void *in_own(void *argument) {
  const int thread = (int)(long)argument;
  for (int i = 0; i < kRounds; i++) {
    move(own[thread], rank * kLongs, (long)i * 7 + thread);
    if (i % 1500 != 1499) continue;
    MPI_Win_unlock_all(own[thread]);
    MPI_Win_lock_all(0, own[thread]);
  }
  return NULL;
}

static void run(void *(*body)(void *)) {
  pthread_t all[kThreads];
  for (long i = 0; i < kThreads; i++) pthread_create(&all[i], NULL, body, (void *)i);
  for (int i = 0; i < kThreads; i++) pthread_join(all[i], NULL);
}

/* What short calls do is counted. */
static void check_counts(void) {
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handle;
  int provided, index, count;
  unsigned long long before = 0, after = 0;
  CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_get_index("rma_puts", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
  CHECK(MPI_T_pvar_start(session, handle) == MPI_SUCCESS);
  for (int round = 0; round < 2; round++) {
    MPI_T_pvar_read(session, handle, &before);
    for (int i = 0; i < 5000; i++) MPI_Put(&rank, 1, MPI_INT, to, place_of(rank, 0), 1, MPI_INT, common);
    MPI_Win_flush(to, common);
    MPI_T_pvar_read(session, handle, &after);
    CHECK(after - before == 5000);
  }
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
}

int main(int argc, char **argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  CHECK(provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  counter_at = place_of(size, 0);
  large_at = counter_at + 1;
  const MPI_Aint bytes = (large_at + kThreads * (kLarge / (long)sizeof(long))) * (MPI_Aint)sizeof(long);
  MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &common);
  memset(memory, 0, (size_t)bytes);
  MPI_Win_set_errhandler(common, MPI_ERRORS_RETURN);
  for (int i = 0; i < kThreads; i++) {
    void *its;
    MPI_Win_allocate(size * kLongs * (MPI_Aint)sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &its,
                     &own[i]);
    MPI_Win_lock_all(0, own[i]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, common);
  run(in_common);
  run(in_own);
  MPI_Win_flush_all(common);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_sync(common);
  CHECK(memory[counter_at] == kThreads * kRounds / 500);
  for (int i = 0; i < kThreads; i++) {
    const long *its = memory + place_of(from, i);
    for (int k = 0; k < kLongs; k++) CHECK(its[k] == (kRounds - 1) * 1000L + i + k);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  check_counts();
  MPI_Win_unlock_all(common);
  MPI_Win_free(&common);
  for (int i = 0; i < kThreads; i++) {
    MPI_Win_unlock_all(own[i]);
    MPI_Win_free(&own[i]);
  }
  done();
  return 0;
}
