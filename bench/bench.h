/* What the benchmark programs share. Plain MPI-3 C, so that every MPI's mpicc compiles them.
 *
 * Each program prints one line per measured point, for bench/run to read:
 *   POINT <series> <x> <value> <unit>
 * Times are medians over batches, so that one preempted batch does not count.
 */
#ifndef BENCH_H
#define BENCH_H

#ifdef BENCH_SOCKETS
#include "sockets.h"
#elif defined(BENCH_MEMORY)
#include "memory.h"
#else
#include <mpi.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#ifdef BENCH_SIMULATED
#define BATCHES 3 /* nothing disturbs a simulated machine */
#else
#define BATCHES 21
#endif

static inline int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static inline double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, by_value);
  return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* Repetitions for one batch of about `batch_us` when one takes about `each_us`; the same on every rank. */
static inline int repetitions(double each_us, double batch_us) {
  int n = (int)(batch_us / (each_us > 0.01 ? each_us : 0.01));
  n = n < 1 ? 1 : n > 20000 ? 20000 : n;
  MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return n;
}

static inline char *touched(size_t bytes) {
  char *p = NULL;
  if (posix_memalign((void **)&p, 4096, bytes ? bytes : 1)) MPI_Abort(MPI_COMM_WORLD, 1);
  memset(p, 1, bytes ? bytes : 1);
  return p;
}

/* Computes for a fixed amount of work, so that CPU time which a library takes from it shows. On a simulated machine
 * (bench/simulated.cc) a loop takes a nanosecond of virtual time. */
#ifdef BENCH_SIMULATED
void simulated_work(long loops);
static inline void work(long loops) { simulated_work(loops); }
#else
static volatile double work_result;
static inline void work(long loops) {
  double x = 1.0;
  for (long i = 0; i < loops; i++) x = x * 1.0000001 + 1e-9;
  work_result = x;
}
#endif

/* CPU time of all threads of this process. On a simulated machine: time of a core that the rank has used, without what
 * it has waited for (as in Majumder 2004, 4.4: useful work, not polling). */
#ifdef BENCH_SIMULATED
double simulated_cpu_us(void);
static inline double cpu_us(void) { return simulated_cpu_us(); }
#else
static inline double cpu_us(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return ((double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec) * 1e6 + (double)usage.ru_utime.tv_usec +
         (double)usage.ru_stime.tv_usec;
}
#endif

static inline void point(const char *series, long x, double value, const char *unit) {
  printf("POINT %s %ld %.6g %s\n", series, x, value, unit);
  fflush(stdout);
}

static inline long argument(int argc, char **argv, const char *name, long otherwise) {
  for (int i = 1; i + 1 < argc; i++) {
    if (!strcmp(argv[i], name)) return atol(argv[i + 1]);
  }
  return otherwise;
}

#endif
