// ranks: 1 2 4
/* Kinds of windows: attributes, names, info, groups, shared memory and its queries; attached memory that touches. */
#include <time.h>

#include "check.h"

static int me, ranks;

static int deleted;
static int on_delete(MPI_Win win, int keyval, void* value, void* extra) {
  (void)win, (void)keyval, (void)extra;
  deleted += *(int*)value;
  return MPI_SUCCESS;
}

static void attributes(void) {
  double memory[10];
  MPI_Win win;
  MPI_Info info, used;
  MPI_Info_create(&info);
  MPI_Info_set(info, "no_locks", "true");
  MPI_Info_set(info, "same_size", "true");
  MPI_Info_set(info, "accumulate_ordering", "none");
  MPI_Win_create(memory, sizeof memory, 8, info, MPI_COMM_WORLD, &win);
  MPI_Info_free(&info);
  MPI_Win_get_info(win, &used);
  char value[64];
  int length = 64, flag;
  MPI_Info_get_string(used, "no_locks", &length, value, &flag);
  CHECK(flag && strcmp(value, "true") == 0);
  length = 64;
  MPI_Info_get_string(used, "accumulate_ordering", &length, value, &flag);
  CHECK(flag && strcmp(value, "none") == 0);
  MPI_Info_free(&used);
  void* base;
  MPI_Aint* size;
  int *unit, *flavor, *model;
  MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
  CHECK(flag && base == memory);
  MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag);
  CHECK(flag && *size == sizeof memory);
  MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag);
  CHECK(flag && *unit == 8);
  MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
  CHECK(flag && *flavor == MPI_WIN_FLAVOR_CREATE);
  MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag);
  CHECK(flag && *model == MPI_WIN_UNIFIED);
  int key, seven = 7, *got;
  MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, NULL);
  MPI_Win_get_attr(win, key, &got, &flag);
  CHECK(!flag);
  MPI_Win_set_attr(win, key, &seven);
  MPI_Win_get_attr(win, key, &got, &flag);
  CHECK(flag && *got == 7);
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Win_get_name(win, name, &length);
  CHECK(length == 0);
  MPI_Win_set_name(win, "a window");
  MPI_Win_get_name(win, name, &length);
  CHECK(length == 8 && strcmp(name, "a window") == 0);
  MPI_Group group, world;
  MPI_Win_get_group(win, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  int same;
  MPI_Group_compare(group, world, &same);
  CHECK(same == MPI_IDENT);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  MPI_Win_free(&win);
  CHECK(deleted == 7);
  MPI_Win_free_keyval(&key);
}

static void shared(int apart) {
  MPI_Comm node;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int rank, size;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  MPI_Info info;
  MPI_Info_create(&info);
  if (apart) MPI_Info_set(info, "alloc_shared_noncontig", "true");
  /* Rank 0 has none of its own. */
  const MPI_Aint mine = rank == 0 && size > 1 ? 0 : (rank + 1) * 8;
  long *base, *theirs;
  MPI_Win win;
  MPI_Win_allocate_shared(mine, 8, info, node, &base, &win);
  MPI_Info_free(&info);
  MPI_Win_fence(0, win);
  for (MPI_Aint i = 0; i < mine / 8; i++) base[i] = rank * 100 + i;
  MPI_Win_fence(0, win);
  long* end = NULL;
  for (int other = 0; other < size; other++) {
    MPI_Aint bytes;
    int unit;
    MPI_Win_shared_query(win, other, &bytes, &unit, &theirs);
    CHECK(bytes == (other == 0 && size > 1 ? 0 : (other + 1) * 8) && unit == 8);
    for (MPI_Aint i = 0; i < bytes / 8; i++) CHECK(theirs[i] == other * 100 + i);
    if (!apart && end && bytes) CHECK(theirs == end);
    if (bytes) end = theirs + bytes / 8;
  }
  MPI_Aint bytes;
  int unit;
  MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &theirs);
  CHECK(bytes == (size > 1 ? 16 : 8) && theirs[0] == (size > 1 ? 100 : 0));
  MPI_Win_fence(0, win);
  /* Adding by operations and by stores under a lock. */
  const int to = size - 1;
  MPI_Win_shared_query(win, to, &bytes, &unit, &theirs);
  if (rank == to) theirs[0] = 0;
  MPI_Win_fence(0, win);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  for (int i = 0; i < 200; i++) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
    if (i % 2) {
      theirs[0]++;
      MPI_Win_sync(win);
    } else {
      long one = 1;
      MPI_Accumulate(&one, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, win);
    }
    MPI_Win_unlock(to, win);
  }
  MPI_Barrier(node);
  MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
  CHECK(theirs[0] == 200 * size);
  MPI_Win_unlock(to, win);
  MPI_Barrier(node);
  MPI_Win_free(&win);
  MPI_Comm_free(&node);
}

/* Readers see whole writes, writers get their turn among readers. */
static void readers_and_writers(int created) {
  long* memory;
  MPI_Win win;
  if (created) {
    memory = calloc(64, sizeof(long));
    MPI_Win_create(memory, 64 * sizeof(long), 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  } else {
    MPI_Win_allocate(64 * sizeof(long), 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, 64 * sizeof(long));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 100; i++) {
    long seen[64];
    if (i % 4 == me % 4) {
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
      MPI_Get(seen, 64, MPI_LONG, 0, 0, 64, MPI_LONG, win);
      MPI_Win_flush(0, win);
      for (int k = 0; k < 64; k++) seen[k]++;
      MPI_Put(seen, 64, MPI_LONG, 0, 0, 64, MPI_LONG, win);
    } else {
      MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
      MPI_Get(seen, 64, MPI_LONG, 0, 0, 64, MPI_LONG, win);
    }
    MPI_Win_unlock(0, win);
    for (int k = 1; k < 64; k++) CHECK(seen[k] == seen[0]);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (me == 0) {
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    CHECK(memory[5] == 25 * ranks);
    MPI_Win_unlock(0, win);
  }
  MPI_Win_free(&win);
  if (created) free(memory);
}

/* A target that computes is served meanwhile. (It looks at memory while others write it: no ThreadSanitizer.) */
__attribute__((no_sanitize("thread"))) static void passive(int created) {
  if (ranks < 2) return;
  int* memory;
  MPI_Win win;
  if (created) {
    memory = calloc(16, sizeof(int));
    MPI_Win_create(memory, 16 * sizeof(int), 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  } else {
    MPI_Win_allocate(16 * sizeof(int), 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, 16 * sizeof(int));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (me == 1) {
    /* Outside MPI until the other one's operations, that it answers here, are over. */
    volatile int* flag = memory;
    const double begin = MPI_Wtime();
    double now = begin;
    while (*flag == 0 && now - begin < 20) {
      struct timespec moment = {0, 1000000};
      nanosleep(&moment, NULL);
      struct timespec clock;
      clock_gettime(CLOCK_MONOTONIC, &clock);
      static double first;
      const double seconds = clock.tv_sec + clock.tv_nsec * 1e-9;
      if (first == 0) first = seconds;
      now = begin + seconds - first;
    }
    CHECK(*flag == 1);
  } else if (me == 0) {
    int one = 1, old = -1;
    for (int i = 0; i < 20; i++) {
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
      MPI_Fetch_and_op(&one, &old, MPI_INT, 1, 1, MPI_SUM, win);
      MPI_Win_unlock(1, win);
      CHECK(old == i);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    MPI_Put(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
    MPI_Win_unlock(1, win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_free(&win);
  if (created) free(memory);
}

/* All ranks of a node mean the same memory by MPI_PROC_NULL, or say that it is empty where they cannot reach it. */
static void query_without_a_rank(int created) {
  MPI_Aint mine = 8 * (me + 1);
  void *base, *seen;
  MPI_Win win;
  if (created) {
    base = malloc(mine);
    MPI_Win_create(base, mine, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  } else {
    MPI_Win_allocate(mine, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  }
  for (int rank = 0; rank < ranks; rank++) {
    MPI_Aint bytes;
    int unit;
    MPI_Win_shared_query(win, rank, &bytes, &unit, &seen);
    CHECK(unit == 8 && (bytes == 8 * (rank + 1) || (bytes == 0 && rank != me)));
    if (rank == me) CHECK(seen == base);
  }
  MPI_Aint bytes;
  int unit;
  MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &seen);
  const char* path = getenv("TERN_PATH");
  if (!path || strstr(path, "shm")) CHECK(bytes == 8 || (bytes == 0 && me != 0));
  if (me == 0) CHECK(bytes == 8 && seen == base);
  MPI_Win_free(&win);
  if (created) free(base);
}

/* One element and a few, at places inside the target's memory and at its end, with a displacement unit of 4. */
static void short_operations(int created) {
  enum { kBytes = 64 };
  const int to = (me + 1) % ranks;
  char* base;
  MPI_Win win;
  if (created) {
    base = malloc(kBytes);
    MPI_Win_create(base, kBytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  } else {
    MPI_Win_allocate(kBytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
  }
  memset(base, 0, kBytes);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  const long long big = 0x0102030405060708 + me, minus = -1;
  const int small = 1000 + me;
  long long seen = 0;
  int seen4 = 0;
  char text[8] = "abcdefg", back[8] = "";
  MPI_Put(&big, 1, MPI_LONG_LONG, to, 0, 1, MPI_LONG_LONG, win);
  MPI_Put(&small, 1, MPI_INT, to, 15, 1, MPI_INT, win); /* the last word */
  MPI_Put(text, 7, MPI_CHAR, to, 2, 7, MPI_CHAR, win);
  MPI_Win_flush(to, win); /* a put and an accumulate of the same word are not ordered */
  MPI_Accumulate(&minus, 1, MPI_LONG_LONG, to, 0, 1, MPI_LONG_LONG, MPI_SUM, win);
  MPI_Win_flush(to, win);
  MPI_Get(back, 7, MPI_CHAR, to, 2, 7, MPI_CHAR, win);
  MPI_Fetch_and_op(&minus, &seen, MPI_LONG_LONG, to, 0, MPI_REPLACE, win);
  MPI_Fetch_and_op(&small, &seen4, MPI_INT, to, 15, MPI_SUM, win);
  MPI_Win_flush(to, win);
  CHECK(seen == big - 1 && seen4 == small && memcmp(back, text, 8) == 0);
  MPI_Fetch_and_op(NULL, &seen, MPI_LONG_LONG, to, 0, MPI_NO_OP, win);
  MPI_Fetch_and_op(&small, &seen4, MPI_INT, to, 15, MPI_NO_OP, win);
  MPI_Win_flush(to, win);
  CHECK(seen == -1 && seen4 == 2 * small);
  /* What does not fit is an error, and changes nothing. */
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  const struct {
    MPI_Aint place;
    int count;
  } kOutside[] = {{16, 1}, {15, 2}, {1, 16}, {((MPI_Aint)1) << 62, 1}};
  for (int i = 0; i < 4; i++) {
    const int count = kOutside[i].count;
    const int outcome = MPI_Put(text, count, MPI_INT, to, kOutside[i].place, count, MPI_INT, win);
    int error_class;
    MPI_Error_class(outcome, &error_class);
    CHECK(error_class == MPI_ERR_RMA_RANGE);
  }
  CHECK(MPI_Put(text, 1, MPI_INT, to, -1, 1, MPI_INT, win) != MPI_SUCCESS);
  CHECK(MPI_Put(text, 1, MPI_INT, ranks, 0, 1, MPI_INT, win) != MPI_SUCCESS);
  CHECK(MPI_Win_flush(ranks, win) != MPI_SUCCESS && MPI_Win_flush(-7, win) != MPI_SUCCESS);
  MPI_Win_unlock_all(win);
  CHECK(MPI_Put(text, 1, MPI_INT, to, 0, 1, MPI_INT, win) != MPI_SUCCESS);
  CHECK(MPI_Win_flush(to, win) != MPI_SUCCESS);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_free(&win);
  if (created) free(base);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  attributes();
  const char* path = getenv("TERN_PATH");
  if (!path || strstr(path, "shm")) {
    shared(0);
    shared(1);
  }
  for (int created = 0; created < 2; created++) {
    query_without_a_rank(created);
    short_operations(created);
  }
  readers_and_writers(0);
  readers_and_writers(1);
  passive(0);
  passive(1);
  done();
  return 0;
}
