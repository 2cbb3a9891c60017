// Errors that are seen without TERN_CHECK: `differences_program CASE`, 2 ranks.
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cases.h"

static int rank;

static void barrier_and_bcast(void) {
  int value = 1;
  if (rank == 0) {
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    MPI_Bcast(&value, 1, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void reduce_of_one(void) {
  int value = 1, sum;
  if (rank == 1) MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void* finalize(void* nothing) {
  MPI_Finalize();
  return nothing;
}

static void other_thread_finalizes(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, finalize, NULL);
  pthread_join(thread, NULL);
  exit(0);
}

static void* barrier_of_thread(void* nothing) {
  MPI_Barrier(MPI_COMM_WORLD);
  return nothing;
}
static void threads_meet_in_barriers(void) {
  if (rank == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, barrier_of_thread, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_join(thread, NULL);
  } else {
    usleep(500000);  // both threads of rank 0 wait by now
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

int main(int argc, char** argv) {
  const struct Case cases[] = {{"barrier_and_bcast", barrier_and_bcast},
                               {"reduce_of_one", reduce_of_one},
                               {"other_thread_finalizes", other_thread_finalizes},
                               {"threads_meet_in_barriers", threads_meet_in_barriers}};
  return run_case(argc, argv, cases, sizeof cases / sizeof cases[0], MPI_THREAD_MULTIPLE, &rank);
}
