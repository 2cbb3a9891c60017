/* promises_program CASE: promises in info keys that a program breaks; everything works all the same (check_test.py). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me;

static MPI_Info of_key(const char *key, const char *value) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, value);
  return info;
}

static MPI_Win window(MPI_Info info, MPI_Aint bytes, int unit) {
  MPI_Win win;
  long *memory;
  MPI_Win_allocate(bytes, unit, info, MPI_COMM_WORLD, &memory, &win);
  memset(memory, 0, (size_t)bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Info_free(&info);
  return win;
}

static void no_locks(void) {
  MPI_Win win = window(of_key("no_locks", "true"), 8, 8);
  long one = 1;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
  MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
  MPI_Win_unlock(0, win);
  MPI_Win_free(&win);
}

static void same_size(void) {
  MPI_Win win = window(of_key("same_size", "true"), 8 * (me + 1), 8);
  MPI_Win_free(&win);
}

static void same_disp_unit(void) {
  MPI_Win win = window(of_key("same_disp_unit", "true"), 8, 1 + me);
  MPI_Win_free(&win);
}

static void same_op(const char *value) {
  MPI_Win win = window(of_key("accumulate_ops", value), 16, 8);
  long one = 1, old;
  MPI_Win_lock_all(0, win);
  MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
  MPI_Accumulate(&one, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_MAX, win); /* beside it */
  if (strcmp(value, "same_op") == 0) MPI_Fetch_and_op(NULL, &old, MPI_LONG, 0, 0, MPI_NO_OP, win);
  else MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_MAX, win);
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
}

static void right_promises(void) {
  MPI_Win win = window(of_key("accumulate_ops", "same_op_no_op"), 16, 8);
  long one = 1, old;
  for (int i = 0; i < 3; i++) {
    MPI_Win_fence(0, win);
    MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, i % 2 ? MPI_MAX : MPI_SUM, win);
    MPI_Accumulate(&one, 1, MPI_LONG, 0, 1, 1, MPI_LONG, i % 2 ? MPI_SUM : MPI_MAX, win);
    MPI_Fetch_and_op(NULL, &old, MPI_LONG, 0, 0, MPI_NO_OP, win);
  }
  MPI_Win_fence(0, win);
  MPI_Win_free(&win);
  MPI_Comm comm;
  MPI_Info info = of_key("mpi_assert_no_any_source", "true");
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Info_set(info, "mpi_assert_exact_length", "true");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Info_free(&info);
  int got;
  if (me == 0) MPI_Send(&me, 1, MPI_INT, 1, 3, comm);
  if (me == 1) MPI_Recv(&got, 1, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE);
  MPI_Comm_free(&comm);
}

static void memory_kinds(void) {
  static long memory[4];
  MPI_Win win;
  MPI_Info info = of_key("mpi_assert_memory_alloc_kinds", "mpi:alloc_mem");
  MPI_Win_create(memory, sizeof memory, 8, info, MPI_COMM_WORLD, &win);
  MPI_Info_free(&info);
  MPI_Win_free(&win);
}

static void messages(const char *key) {
  MPI_Comm comm;
  MPI_Info info = of_key(key, "true");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
  MPI_Info_free(&info);
  int got[2] = {-1, -1};
  if (me == 0) MPI_Send(&me, 1, MPI_INT, 1, 3, comm);
  if (me == 1) {
    if (strstr(key, "source")) MPI_Recv(got, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, MPI_STATUS_IGNORE);
    else if (strstr(key, "tag")) MPI_Recv(got, 1, MPI_INT, 0, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
    else MPI_Recv(got, 2, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE);
    if (got[0] != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Comm_free(&comm);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  const char *wanted = argc > 1 ? argv[1] : "";
  if (strcmp(wanted, "no_locks") == 0) no_locks();
  else if (strcmp(wanted, "same_size") == 0) same_size();
  else if (strcmp(wanted, "same_disp_unit") == 0) same_disp_unit();
  else if (strncmp(wanted, "same_op", 7) == 0) same_op(wanted);
  else if (strcmp(wanted, "memory_kinds") == 0) memory_kinds();
  else if (strcmp(wanted, "right_promises") == 0) right_promises();
  else messages(wanted);
  MPI_Finalize();
  return 0;
}
