/* A thread that stays inside the library, in a callback, until it may go on. */
#ifndef TERN_TESTS_MPI_STAY_INSIDE_H
#define TERN_TESTS_MPI_STAY_INSIDE_H

#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>

static atomic_int inside, go_on;

static int wait_in_callback(MPI_Comm comm, int keyval, void *value, void *extra) {
  (void)comm, (void)keyval, (void)value, (void)extra;
  atomic_store(&inside, 1);
  while (!atomic_load(&go_on)) sched_yield();
  return MPI_SUCCESS;
}

static void *stay_inside(void *argument) {
  int keyval;
  (void)argument;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, wait_in_callback, &keyval, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
  MPI_Comm_delete_attr(MPI_COMM_SELF, keyval);
  MPI_Comm_free_keyval(&keyval);
  return NULL;
}

#endif
