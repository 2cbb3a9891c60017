// ranks: 1 2 3 4 8
/* Epochs of MPI_Win_post, start, complete and wait: with neighbours in a ring, ranks that come late and sleep, tests
 * instead of waits, MPI_MODE_NOCHECK, operations that need the target beside those that do not. */
#include <unistd.h>

#include "check.h"

static int me, ranks;

static MPI_Group group_of(int n, const int* members) {
  MPI_Group world, group;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, n, members, &group);
  MPI_Group_free(&world);
  return group;
}

static MPI_Win make(int created, long** memory) {
  MPI_Win win;
  if (created) {
    *memory = calloc(4, sizeof(long));
    MPI_Win_create(*memory, 4 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  } else {
    MPI_Win_allocate(4 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, memory, &win);
    memset(*memory, 0, 4 * sizeof(long));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return win;
}

/* Each writes to the next rank, and reads what it finds there. */
static void ring(int created, int late, int tests) {
  long* memory;
  MPI_Win win = make(created, &memory);
  const int next = (me + 1) % ranks, previous = (me + ranks - 1) % ranks;
  MPI_Group origin = group_of(1, &previous), target = group_of(1, &next);
  for (long round = 1; round <= (late ? 5 : 60); round++) {
    long value = round * 100 + me, old = -1;
    if (late && round % ranks == me % ranks) usleep(20000);
    memory[1] = round;
    MPI_Win_post(origin, 0, win);
    MPI_Win_start(target, 0, win);
    MPI_Put(&value, 1, MPI_LONG, next, 0, 1, MPI_LONG, win);
    MPI_Get(&old, 1, MPI_LONG, next, 1, 1, MPI_LONG, win);
    MPI_Accumulate(&value, 1, MPI_LONG, next, 2, 1, MPI_LONG, MPI_SUM, win);
    if (late && (round + 1) % ranks == me % ranks) usleep(20000);
    MPI_Win_complete(win);
    CHECK(old == round);
    int flag = 0;
    while (tests && !flag) MPI_Win_test(win, &flag);
    if (!flag) MPI_Win_wait(win);
    CHECK(memory[0] == round * 100 + previous);
    CHECK(memory[2] == round * (round + 1) / 2 * 100 + previous * round);
  }
  MPI_Group_free(&origin);
  MPI_Group_free(&target);
  MPI_Win_free(&win);
  if (created) free(memory);
}

/* Everybody reads rank 0's memory, in epochs of its own choice; some do nothing in them. */
static void one_target(int created, int unchecked) {
  long* memory;
  MPI_Win win = make(created, &memory);
  const int zero = 0, mode = unchecked ? MPI_MODE_NOCHECK : 0;
  MPI_Group world, target = group_of(1, &zero);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  for (long round = 1; round <= 40; round++) {
    if (me == 0) memory[0] = round, MPI_Win_post(world, mode, win);
    if (unchecked) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_start(target, mode, win);
    long value = 0;
    const int reads = (me + round) % 3 != 0;
    if (reads) MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
    MPI_Win_complete(win);
    CHECK(!reads || value == round);
    if (me == 0) MPI_Win_wait(win);
  }
  MPI_Group_free(&target);
  MPI_Group_free(&world);
  MPI_Win_free(&win);
  if (created) free(memory);
}

/* Fences and posts take turns; an operation outside of an epoch is an error still. */
static void mixed(void) {
  long *memory, value = me;
  MPI_Win win = make(0, &memory);
  const int next = (me + 1) % ranks, previous = (me + ranks - 1) % ranks;
  MPI_Group origin = group_of(1, &previous), target = group_of(1, &next);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  for (long round = 0; round < 50; round++) {
    MPI_Win_fence(0, win);
    for (int i = 0; i < 3; i++) MPI_Put(&value, 1, MPI_LONG, next, i, 1, MPI_LONG, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    CHECK(memory[0] == previous && memory[2] == previous);
    CHECK(MPI_Put(&value, 1, MPI_LONG, next, 0, 1, MPI_LONG, win) != MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_post(origin, 0, win);
    MPI_Win_start(target, 0, win);
    const long more = round * 10 + me;
    for (int i = 0; i < 3; i++) MPI_Put(&more, 1, MPI_LONG, next, i, 1, MPI_LONG, win);
    MPI_Win_complete(win);
    CHECK(MPI_Put(&value, 1, MPI_LONG, next, 0, 1, MPI_LONG, win) != MPI_SUCCESS);
    MPI_Win_wait(win);
    CHECK(memory[0] == round * 10 + previous && memory[2] == round * 10 + previous);
  }
  MPI_Group_free(&origin);
  MPI_Group_free(&target);
  MPI_Win_free(&win);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int created = 0; created < 2; created++) {
    ring(created, 0, 0);
    ring(created, 0, 1);
    ring(created, 1, 0);
    one_target(created, 0);
    one_target(created, 1);
  }
  mixed();
  done();
  return 0;
}
