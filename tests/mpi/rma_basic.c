// ranks: 1 2 3 4
/* Every kind of window and every synchronisation once: fence, post-start-complete-wait, lock, lock_all with flush;
 * operations to every rank, this one included, small and large, also with datatypes that have holes. */
#include "check.h"

enum { kInts = 64, kLong = 300000 };
static int me, ranks;

static void fence(void) {
  int* memory = calloc(kInts, sizeof(int));
  MPI_Win win;
  MPI_Win_create(memory, kInts * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
  int value = 100 + me;
  for (int to = 0; to < ranks; to++) MPI_Put(&value, 1, MPI_INT, to, me, 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  for (int from = 0; from < ranks; from++) CHECK(memory[from] == 100 + from);
  int got[8];
  for (int from = 0; from < ranks; from++) MPI_Get(&got[from], 1, MPI_INT, from, me, 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  for (int from = 0; from < ranks; from++) CHECK(got[from] == 100 + me);
  for (int to = 0; to < ranks; to++) MPI_Accumulate(&value, 1, MPI_INT, to, 20, 1, MPI_INT, MPI_SUM, win);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  int sum = 0;
  for (int from = 0; from < ranks; from++) sum += 100 + from;
  CHECK(memory[20] == sum);
  MPI_Win_free(&win);
  CHECK(win == MPI_WIN_NULL);
  free(memory);
}

static void post_start(void) {
  int* memory;
  MPI_Win win;
  MPI_Win_allocate(kInts * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  MPI_Group all;
  MPI_Win_get_group(win, &all);
  for (int round = 0; round < 20; round++) {
    memory[me] = -1;
    MPI_Win_post(all, 0, win);
    MPI_Win_start(all, 0, win);
    int value = round * 10 + me;
    for (int to = 0; to < ranks; to++) MPI_Put(&value, 1, MPI_INT, to, me, 1, MPI_INT, win);
    MPI_Win_complete(win);
    if (round % 2) {
      MPI_Win_wait(win);
    } else {
      int flag = 0;
      while (!flag) MPI_Win_test(win, &flag);
    }
    for (int from = 0; from < ranks; from++) CHECK(memory[from] == round * 10 + from);
  }
  MPI_Group_free(&all);
  MPI_Win_free(&win);
}

static void locks(void) {
  long* memory;
  MPI_Win win;
  MPI_Win_allocate(kInts * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  memset(memory, 0, kInts * sizeof(long));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int round = 0; round < 50; round++) {
    for (int to = 0; to < ranks; to++) {
      long value;
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
      MPI_Get(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, win);
      MPI_Win_flush(to, win);
      value++;
      MPI_Put(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, win);
      MPI_Win_unlock(to, win);
      MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
      long one = 1;
      MPI_Accumulate(&one, 1, MPI_LONG, to, 1, 1, MPI_LONG, MPI_SUM, win);
      MPI_Win_unlock(to, win);
    }
  }
  MPI_Win_lock_all(0, win);
  for (int to = 0; to < ranks; to++) {
    for (int i = 0; i < 100; i++) {
      long one = 1, before = -1;
      MPI_Fetch_and_op(&one, &before, MPI_LONG, to, 2, MPI_SUM, win);
      MPI_Win_flush(to, win);
      CHECK(before >= 0 && before < 100 * ranks);
    }
    /* A counter by compare-and-swap. */
    long seen = 0;
    for (int done = 0; !done;) {
      long next = seen + 1, before = -1;
      MPI_Compare_and_swap(&next, &seen, &before, MPI_LONG, to, 3, win);
      MPI_Win_flush(to, win);
      done = before == seen;
      seen = before;
    }
  }
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win);
  CHECK(memory[0] == 50 * ranks);
  CHECK(memory[1] == 50 * ranks);
  CHECK(memory[2] == 100 * ranks);
  CHECK(memory[3] == ranks);
  MPI_Win_unlock(me, win);
  MPI_Win_free(&win);
}

static void large(void) {
  char* memory = malloc(ranks * (size_t)kLong);
  char *data = malloc(kLong), *back = malloc(kLong);
  MPI_Win win;
  MPI_Win_create(memory, ranks * (MPI_Aint)kLong, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  fill(data, me, kLong);
  MPI_Win_lock_all(0, win);
  for (int to = 0; to < ranks; to++) {
    MPI_Request request;
    MPI_Rput(data, kLong, MPI_BYTE, to, (MPI_Aint)me * kLong, kLong, MPI_BYTE, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Win_flush_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int from = 0; from < ranks; from++) CHECK(holds(memory + from * (size_t)kLong, from, kLong));
  for (int from = 0; from < ranks; from++) {
    MPI_Request request;
    memset(back, 0, kLong);
    MPI_Rget(back, kLong, MPI_BYTE, from, (MPI_Aint)me * kLong, kLong, MPI_BYTE, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(holds(back, me, kLong));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_unlock_all(win);
  /* Every second int of the target from a contiguous buffer, and back the other way round. */
  MPI_Datatype holes;
  MPI_Type_vector(kLong / 16, 1, 2, MPI_INT, &holes);
  MPI_Type_commit(&holes);
  memset(memory, 0, ranks * (size_t)kLong);
  MPI_Win_fence(0, win);
  int to = (me + 1) % ranks;
  MPI_Put(data, kLong / 16, MPI_INT, to, 0, 1, holes, win);
  MPI_Win_fence(0, win);
  int from = (me + ranks - 1) % ranks;
  char* expected = malloc(kLong);
  fill(expected, from, kLong);
  for (int i = 0; i < kLong / 16; i++) CHECK(((int*)memory)[2 * i] == ((int*)expected)[i]);
  for (int i = 0; i + 1 < kLong / 16; i++) CHECK(((int*)memory)[2 * i + 1] == 0);
  memset(back, 0, kLong);
  MPI_Get(back, 1, holes, to, 0, 1, holes, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < kLong / 16; i++) CHECK(((int*)back)[2 * i] == ((int*)data)[i]);
  for (int i = 0; i + 1 < kLong / 16; i++) CHECK(((int*)back)[2 * i + 1] == 0);
  /* A long accumulate, in pieces; the old values come back. */
  double *sums = (double*)memory, *mine = malloc(kLong), *old = malloc(kLong);
  const int doubles = kLong / 8;
  for (int i = 0; i < doubles; i++) sums[i] = i, mine[i] = me + 1;
  MPI_Win_fence(0, win);
  MPI_Get_accumulate(mine, doubles, MPI_DOUBLE, old, doubles, MPI_DOUBLE, to, 0, doubles, MPI_DOUBLE, MPI_SUM, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < doubles; i++) CHECK(sums[i] == i + from + 1 && old[i] == i);
  MPI_Type_free(&holes);
  MPI_Win_free(&win);
  free(memory), free(data), free(back), free(expected), free(mine), free(old);
}

static void dynamic(void) {
  MPI_Win win;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  int* memory = calloc(kInts, sizeof(int));
  MPI_Win_attach(win, memory, kInts * sizeof(int));
  MPI_Aint mine, all[8];
  MPI_Get_address(memory, &mine);
  MPI_Allgather(&mine, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  for (int to = 0; to < ranks; to++) MPI_Put(&me, 1, MPI_INT, to, MPI_Aint_add(all[to], me * 4), 1, MPI_INT, win);
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int from = 0; from < ranks; from++) CHECK(memory[from] == from);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_detach(win, memory);
  MPI_Win_free(&win);
  free(memory);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  fence();
  post_start();
  locks();
  large();
  dynamic();
  done();
  return 0;
}
