// Errors of OpenMP programs that show only in rare orders of their threads, which TERN_CHECK brings about:
// `openmp_program CASE`, 2 ranks. With a second word the same without the error.
#include <mpi.h>
#include <omp.h>
#include <string.h>

static int rank, good;
static int data[64], got[64];

static void exchange(void) {
  MPI_Request request;
  MPI_Isend(data, 64, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, &request);
  MPI_Recv(got, 64, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void team_writes(void) {
#pragma omp parallel num_threads(2)
  {
    data[omp_get_thread_num()] = 5;
    if (good) {
#pragma omp barrier
    }
#pragma omp master
    exchange();
  }
}

static void sections_write(void) {
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    exchange();
#pragma omp section
    if (!good) data[3] = 5;
  }
}

static void task_writes(void) {
  int number = 7;
#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp task depend(out : data[good ? 0 : 1]) firstprivate(number)
    data[2] = number;
#pragma omp task depend(in : data[0])
    exchange();
  }
  if (data[2] != 7) MPI_Abort(MPI_COMM_WORLD, 3);
}

static void single_calls(void) {
#pragma omp parallel num_threads(2)
  {
    if (good) {
#pragma omp master
      exchange();
    } else {
#pragma omp single
      exchange();
    }
  }
}

static void critical_orders(void) {
  int number = 1;
  float fraction = 1;
#pragma omp parallel num_threads(2)
  for (int i = 0; i < 2; i++) {
#pragma omp critical
    MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (good) {
#pragma omp barrier
    }
#pragma omp critical
    MPI_Bcast(&fraction, 1, MPI_FLOAT, 0, MPI_COMM_WORLD);
    if (good) {
#pragma omp barrier
    }
  }
}

int main(int argc, char **argv) {
  const struct {
    const char *name;
    int level;
    void (*run)(void);
  } cases[] = {{"team_writes", MPI_THREAD_FUNNELED, team_writes},
               {"sections_write", MPI_THREAD_MULTIPLE, sections_write},
               {"task_writes", MPI_THREAD_MULTIPLE, task_writes},
               {"single_calls", MPI_THREAD_FUNNELED, single_calls},
               {"critical_orders", MPI_THREAD_MULTIPLE, critical_orders}};
  good = argc > 2;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    if (strcmp(argv[1], cases[i].name) != 0) continue;
    int provided;
    MPI_Init_thread(NULL, NULL, cases[i].level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cases[i].run();
    MPI_Finalize();
    return 0;
  }
  return 2;
}
