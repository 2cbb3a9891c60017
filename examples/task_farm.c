/* A task farm: rank 0 gives out tasks, the others work on them and ask for the next one. Fast ranks get more.
 * The task here: is this number a prime?
 *
 *   mpicc task_farm.c -o task_farm && mpiexec -n 4 ./task_farm [largest number]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kTask, kResult, kStop }; /* tags */

static int is_prime(int n) {
  if (n < 2) return 0;
  for (int d = 2; d <= n / d; d++) {
    if (n % d == 0) return 0;
  }
  return 1;
}

/* Gives each worker a first task, then a new one for each result. */
static int give_out(int largest, int workers) {
  int next = 1, busy = 0, primes = 0;
  for (int worker = 1; worker <= workers; worker++) {
    if (next <= largest) {
      MPI_Send(&next, 1, MPI_INT, worker, kTask, MPI_COMM_WORLD);
      next++;
      busy++;
    } else {
      MPI_Send(NULL, 0, MPI_INT, worker, kStop, MPI_COMM_WORLD);
    }
  }
  while (busy > 0) {
    int result;
    MPI_Status status;
    MPI_Recv(&result, 1, MPI_INT, MPI_ANY_SOURCE, kResult, MPI_COMM_WORLD, &status);
    primes += result;
    if (next <= largest) {
      MPI_Send(&next, 1, MPI_INT, status.MPI_SOURCE, kTask, MPI_COMM_WORLD);
      next++;
    } else {
      MPI_Send(NULL, 0, MPI_INT, status.MPI_SOURCE, kStop, MPI_COMM_WORLD);
      busy--;
    }
  }
  return primes;
}

static void work(void) {
  while (1) {
    int number;
    MPI_Status status;
    MPI_Recv(&number, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    if (status.MPI_TAG == kStop) return;
    int result = is_prime(number);
    MPI_Send(&result, 1, MPI_INT, 0, kResult, MPI_COMM_WORLD);
  }
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int largest = argc > 1 ? atoi(argv[1]) : 1000;
  if (rank > 0) {
    work();
  } else {
    int primes = 0;
    if (size > 1) {
      primes = give_out(largest, size - 1);
    } else {
      for (int n = 1; n <= largest; n++) primes += is_prime(n);
    }
    printf("%d primes up to %d\n", primes, largest);
  }
  return MPI_Finalize();
}
