// ranks: 1 2 4 8
/* Passive-target locks under contention, created and allocated windows: writers are alone, readers see no half of a
 * write, locks of disjoint windows do not wait for each other, the lock is free again at the end. The design comes from
 * TERN_RMA_LOCK and from the info key. */
#include <unistd.h>

#include "check.h"

enum { kRounds = 200, kWords = 600 };
static int me, ranks;

static MPI_Win make(int created, int words, const char *design, long **memory) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Win win;
  if (design) {
    MPI_Info_create(&info);
    MPI_Info_set(info, "tern_rma_lock", design);
  }
  if (created) {
    *memory = calloc((size_t)words, sizeof(long));
    MPI_Win_create(*memory, words * (MPI_Aint)sizeof(long), sizeof(long), info, MPI_COMM_WORLD, &win);
  } else {
    MPI_Win_allocate(words * (MPI_Aint)sizeof(long), sizeof(long), info, MPI_COMM_WORLD, memory, &win);
    memset(*memory, 0, (size_t)words * sizeof(long));
  }
  if (design) MPI_Info_free(&info);
  MPI_Barrier(MPI_COMM_WORLD);
  return win;
}

static void end(int created, MPI_Win *win, long *memory) {
  MPI_Win_free(win);
  if (created) free(memory);
}

/* A counter that is read and written, not added to: two writers at one time would lose an increment. */
static void count(int created, const char *design) {
  long *memory;
  MPI_Win win = make(created, 2, design, &memory);
  for (int i = 0; i < kRounds; i++) {
    long value;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Get(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win);
    MPI_Win_flush(0, win);
    value++;
    MPI_Put(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  long value = 0;
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  MPI_Get(&value, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win);
  MPI_Win_unlock(0, win);
  CHECK(value == (long)kRounds * ranks);
  end(created, &win, memory);
}

/* Writers fill many words with one value, also by a put that is longer than what goes along with the lock. */
static void mix(int created, const char *design) {
  long *memory;
  long words[kWords];
  const int target = ranks - 1;
  MPI_Win win = make(created, kWords, design, &memory);
  for (int i = 0; i < kRounds / 4; i++) {
    const int many = i % 2 ? kWords : 10;
    if ((i + me) % 3 == 0) {
      for (int k = 0; k < kWords; k++) words[k] = me * 1000 + i;
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
      MPI_Put(words, kWords, MPI_LONG, target, 0, kWords, MPI_LONG, win);
      MPI_Win_unlock(target, win);
    } else {
      MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
      MPI_Get(words, many, MPI_LONG, target, 0, many, MPI_LONG, win);
      MPI_Win_unlock(target, win);
      for (int k = 1; k < many; k++) CHECK(words[k] == words[0]);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  MPI_Win_unlock_all(win);
  end(created, &win, memory);
}

/* Rank 0 keeps the lock of one window while another one is locked, and while the target is asked for by many. */
static void disjoint(int created, const char *design) {
  if (ranks < 2) return;
  long *first_memory, *second_memory;
  MPI_Win first = make(created, 4, design, &first_memory), second = make(created, 4, design, &second_memory);
  const long one = 1;
  if (me == 0) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, first);
    MPI_Put(&one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, first);
    MPI_Win_flush(1, first);
  }
  MPI_Barrier(MPI_COMM_WORLD); /* the first is held: who waited for it with the second would hang here */
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, second);
  MPI_Accumulate(&one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, second);
  MPI_Win_unlock(1, second);
  MPI_Barrier(MPI_COMM_WORLD);
  if (me == 0) MPI_Win_unlock(1, first);
  long sum = 0;
  MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, second);
  MPI_Get(&sum, 1, MPI_LONG, 1, 0, 1, MPI_LONG, second);
  MPI_Win_unlock(1, second);
  CHECK(sum == ranks);
  end(created, &second, second_memory);
  end(created, &first, first_memory);
}

/* The target computes until everybody has added to its memory, without calls of MPI. Where nothing serves it meanwhile
 * (TERN_PROGRESS=polling) it does so only for a moment. (It looks at memory while others write it: no
 * ThreadSanitizer.) */
__attribute__((no_sanitize("thread"))) static void passive(int created, const char *design) {
  long *memory, one = 1;
  const long all = 5 * (ranks - 1);
  const char *progress = getenv("TERN_PROGRESS");
  const int polls = design && strcmp(design, "polling-thread") == 0 && sysconf(_SC_NPROCESSORS_ONLN) >= ranks;
  const int helped = polls || !progress || strcmp(progress, "polling") != 0;
  MPI_Win win = make(created, 1, design, &memory);
  if (me == 0) {
    const double until = MPI_Wtime() + (helped ? 30 : 0.001);
    while (*(volatile long *)memory != all && MPI_Wtime() < until) {
    }
    if (helped) CHECK(*(volatile long *)memory == all);
  } else {
    for (int i = 0; i < 5; i++) {
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
      MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
      MPI_Win_unlock(0, win);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (me == 0) {
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    CHECK(memory[0] == all);
    MPI_Win_unlock(0, win);
  }
  end(created, &win, memory);
}

static void used(const char *design) {
  long *memory;
  char value[MPI_MAX_INFO_VAL];
  int found = 0;
  MPI_Info info;
  MPI_Win win = make(0, 1, design, &memory);
  MPI_Win_get_info(win, &info);
  MPI_Info_get(info, "tern_rma_lock", sizeof value - 1, value, &found);
  /* A path without atomic operations has the target's thread do it; a world of one has it too. */
  CHECK(found && (strcmp(value, design) == 0 || strcmp(value, "event-thread") == 0));
  MPI_Info_free(&info);
  MPI_Win_free(&win);
}

/* Two ranks read at two targets each, the second target being the other's first. Writers that have asked in between do
 * not keep them from it: the writers wait for them. */
static void readers_of_two(const char *design, int all) {
  if (ranks < 4) return;
  long *memory, one = 1, value = 0;
  MPI_Win win = make(0, 1, design, &memory);
  if (me < 2) {
    const int first = 2 + me, second = 3 - me;
    if (all) MPI_Win_lock_all(0, win);
    else MPI_Win_lock(MPI_LOCK_SHARED, first, 0, win);
    MPI_Get(&value, 1, MPI_LONG, first, 0, 1, MPI_LONG, win);
    MPI_Win_flush(first, win);
    MPI_Send(NULL, 0, MPI_INT, first, 0, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_INT, first, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    usleep(5000); /* the writer asks now */
    if (!all) MPI_Win_lock(MPI_LOCK_SHARED, second, 0, win);
    MPI_Get(&value, 1, MPI_LONG, second, 0, 1, MPI_LONG, win);
    MPI_Win_flush(second, win);
    CHECK(value == 0 || value == 1);
    if (all) MPI_Win_unlock_all(win);
    else MPI_Win_unlock(first, win), MPI_Win_unlock(second, win);
  } else if (me < 4) {
    MPI_Recv(NULL, 0, MPI_INT, me - 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(NULL, 0, MPI_INT, me - 2, 0, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win);
    MPI_Put(&one, 1, MPI_LONG, me, 0, 1, MPI_LONG, win);
    MPI_Win_unlock(me, win);
    CHECK(memory[0] == 1);
  }
  end(0, &win, memory);
}

int main(void) {
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  static const char *const kDesigns[] = {NULL, "polling-thread", "event-thread", "test-and-set", "mcs"};
  for (int i = 0; i < 5; i++) {
    for (int created = 0; created < 2; created++) {
      count(created, kDesigns[i]);
      mix(created, kDesigns[i]);
      disjoint(created, kDesigns[i]);
      passive(created, kDesigns[i]);
    }
    for (int all = 0; all < 2; all++) readers_of_two(kDesigns[i], all);
    if (kDesigns[i]) used(kDesigns[i]);
  }
  MPI_Finalize();
  return 0;
}
