// ranks: 1 2 4
/* Promises in info keys that the program breaks: everything works all the same. */
#include "check.h"

static int me, ranks;

enum { kCreate, kAllocate, kDynamic, kShared, kFlavors };

static MPI_Aint make(int flavor, MPI_Info info, MPI_Comm comm, int longs, long **memory, MPI_Win *win) {
  const MPI_Aint bytes = longs * (MPI_Aint)sizeof(long);
  MPI_Aint there = 0;
  if (flavor == kAllocate) {
    MPI_Win_allocate(bytes, sizeof(long), info, comm, memory, win);
  } else if (flavor == kShared) {
    MPI_Win_allocate_shared(bytes, sizeof(long), info, comm, memory, win);
  } else {
    *memory = malloc(bytes + 1);
    if (flavor == kCreate) {
      MPI_Win_create(*memory, bytes, sizeof(long), info, comm, win);
    } else {
      MPI_Win_create_dynamic(info, comm, win);
      MPI_Win_attach(*win, *memory, bytes);
      MPI_Get_address(*memory, &there);
      MPI_Bcast(&there, 1, MPI_AINT, 0, comm);
    }
  }
  for (int i = 0; i < longs; i++) (*memory)[i] = 0;
  MPI_Barrier(comm);
  return there;
}

static void end(int flavor, long *memory, MPI_Win *win) {
  if (flavor == kDynamic) MPI_Win_detach(*win, memory);
  MPI_Win_free(win);
  if (flavor == kCreate || flavor == kDynamic) free(memory);
}

/* Every kind of lock of a window that is never locked. */
static void locks(int flavor, const char *design) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "no_locks", "true");
  if (design) MPI_Info_set(info, "tern_rma_lock", design);
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm comm = flavor == kShared ? node : MPI_COMM_WORLD;
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Win win;
  long *memory, one = 1, got[2];
  const MPI_Aint there = make(flavor, info, comm, 4, &memory, &win);
  for (int i = 0; i < 20; i++) {
    /* Read, change, write: only an exclusive lock makes it one. */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Get(got, 1, MPI_LONG, 0, there, 1, MPI_LONG, win);
    MPI_Win_flush(0, win);
    got[0]++;
    MPI_Put(got, 1, MPI_LONG, 0, there, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    MPI_Win_lock_all(0, win);
    MPI_Accumulate(&one, 1, MPI_LONG, 0, there + (flavor == kDynamic ? 8 : 1), 1, MPI_LONG, MPI_SUM, win);
    MPI_Win_unlock_all(win);
  }
  MPI_Barrier(comm);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  MPI_Get(got, 2, MPI_LONG, 0, there, 2, MPI_LONG, win);
  MPI_Win_unlock(0, win);
  CHECK(got[0] == 20 * size && got[1] == 20 * size);
  MPI_Barrier(comm);
  end(flavor, memory, &win);
  MPI_Comm_free(&node);
  MPI_Info_free(&info);
}

/* Locks that are taken at once exclude each other though their epochs have no operations: who holds one of rank 0 is
 * alone with what only messages pass on. */
static void at_once(const char *design) {
  MPI_Info info, told;
  MPI_Info_create(&info);
  MPI_Info_set(info, "tern_rma_lock_at_once", "true");
  MPI_Info_set(info, "tern_rma_lock", design);
  long *memory;
  MPI_Win win;
  make(kAllocate, info, MPI_COMM_WORLD, 1, &memory, &win);
  char value[8];
  int flag;
  MPI_Win_get_info(win, &told);
  MPI_Info_get(told, "tern_rma_lock_at_once", 7, value, &flag);
  CHECK(flag && strcmp(value, "true") == 0);
  MPI_Info_free(&told);
  if (ranks > 1 && me == 1) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD);
    for (int i = 0; i < 50; i++) MPI_Iprobe(0, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag); /* rank 0 waits for the lock */
    MPI_Win_unlock(0, win);
    MPI_Recv(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else if (ranks > 1 && me == 0) {
    MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Send(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD);
    MPI_Win_unlock(0, win);
  }
  end(kAllocate, memory, &win);
  MPI_Info_free(&info);
}

/* Sizes and units that differ, though they were promised to be the same. */
static void sizes(int flavor) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "same_size", "true");
  MPI_Info_set(info, "same_disp_unit", "true");
  const MPI_Aint bytes = 8 * (me + 1);
  const int unit = me % 2 ? 1 : 8;
  long *memory, value = me + 1;
  MPI_Win win;
  if (flavor == kAllocate) {
    MPI_Win_allocate(bytes, unit, info, MPI_COMM_WORLD, &memory, &win);
  } else {
    memory = malloc(bytes);
    MPI_Win_create(memory, bytes, unit, info, MPI_COMM_WORLD, &win);
  }
  const int to = (me + 1) % ranks;
  MPI_Win_fence(0, win);
  MPI_Put(&value, 1, MPI_LONG, to, to % 2 ? 8 * to : to, 1, MPI_LONG, win);
  MPI_Win_fence(0, win);
  CHECK(memory[me] == (me + ranks - 1) % ranks + 1);
  end(flavor, memory, &win);
  MPI_Info_free(&info);
}

/* Several operators at one place at the same time. */
static void operators(int flavor) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "accumulate_ops", "same_op");
  MPI_Info_set(info, "accumulate_ordering", "none");
  MPI_Win win;
  long *memory, one = 1, bit = 1L << (32 + me), old;
  const MPI_Aint there = make(flavor, info, MPI_COMM_WORLD, 1, &memory, &win);
  MPI_Win_lock_all(0, win);
  for (int i = 0; i < 50; i++) {
    MPI_Accumulate(&one, 1, MPI_LONG, 0, there, 1, MPI_LONG, MPI_SUM, win);
    MPI_Fetch_and_op(&bit, &old, MPI_LONG, 0, there, MPI_BOR, win);
    MPI_Fetch_and_op(NULL, &old, MPI_LONG, 0, there, MPI_NO_OP, win);
  }
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  MPI_Fetch_and_op(NULL, &old, MPI_LONG, 0, there, MPI_NO_OP, win);
  MPI_Win_unlock(0, win);
  CHECK(old == (((1L << ranks) - 1) << 32 | 50 * ranks));
  MPI_Barrier(MPI_COMM_WORLD);
  end(flavor, memory, &win);
  MPI_Info_free(&info);
}

/* All ranks of the test are on one host: they share memory, whatever path messages take. */
static void one_node(void) {
  MPI_Comm node;
  int size;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &size);
  if (getenv("TERN_PATH")) CHECK(size == ranks);
  MPI_Comm_free(&node);
}

/* A rank without memory: MPI_Win_shared_query says what MPI_Win_allocate_shared said. */
static void queries(int longs) {
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int rank;
  MPI_Comm_rank(node, &rank);
  MPI_Win win;
  void *mine, *asked;
  MPI_Aint bytes;
  int unit;
  MPI_Win_allocate_shared(rank % 2 ? 8 : longs * 8, 4, MPI_INFO_NULL, node, &mine, &win);
  MPI_Win_shared_query(win, rank, &bytes, &unit, &asked);
  CHECK(asked == mine && unit == 4 && bytes == (rank % 2 ? 8 : longs * 8));
  MPI_Win_shared_query(win, 0, &bytes, &unit, &asked);
  CHECK((asked != NULL) == (longs != 0) && bytes == longs * 8);
  MPI_Win_free(&win);
  MPI_Comm_free(&node);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char *designs[] = {NULL, "event-thread", "polling-thread", "test-and-set", "mcs"};
  for (int flavor = 0; flavor < kFlavors; flavor++) {
    for (int i = 0; i < 5; i++) locks(flavor, designs[i]);
    if (flavor != kShared) operators(flavor);
  }
  for (int i = 1; i < 5; i++) at_once(designs[i]);
  sizes(kCreate);
  sizes(kAllocate);
  one_node();
  queries(0);
  queries(1);
  done();
  return 0;
}
