/* What passive.c and bare_onesided.c share: how long operations wait longer for a side that computes. */
#ifndef BENCH_DELAY_H
#define BENCH_DELAY_H

#include <time.h>

#include "bench.h"

enum { kMost = 4096 }; /* times of one series */

/* Not MPI_Wtime: the target does not enter MPI. */
static inline double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static inline void compute_until(double end_us) {
  while (now_us() < end_us) work(300);
}

/* times[0], of a target that waits, and times[1], of one that computes, each in ascending order. */
static inline void point_delays(const char *name, long x, double times[2][kMost], const int count[2]) {
  const double waiting = times[0][count[0] / 2], computing = times[1][count[1] / 2];
  const double late = times[1][count[1] * 99 / 100];
  const struct {
    const char *name;
    double value;
  } kPoints[] = {
      {"waiting", waiting}, {"computing", computing}, {"delay", computing - waiting}, {"delay-99", late - waiting}};
  for (size_t i = 0; i < sizeof kPoints / sizeof *kPoints; i++) {
    char series[64];
    snprintf(series, sizeof series, "%s-%s", name, kPoints[i].name);
    point(series, x, kPoints[i].value, "us");
  }
}

#endif
