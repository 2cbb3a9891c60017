/* What a rank counts in a part of a program: counters of Tern by MPI_T. With another MPI there are none of these names.
 */
#ifndef BENCH_COUNTERS_H
#define BENCH_COUNTERS_H

#include "bench.h"

#define MOST_COUNTERS 64

static MPI_T_pvar_session counting_session;
static MPI_T_pvar_handle counter_handles[MOST_COUNTERS];
static char counter_names[MOST_COUNTERS][64];
static int counter_count;

/* Those whose names begin like that; from now on. */
static inline void begin_counting(const char* prefix) {
  int provided, count;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_pvar_session_create(&counting_session);
  MPI_T_pvar_get_num(&count);
  for (int i = 0; i < count && counter_count < MOST_COUNTERS; i++) {
    char* name = counter_names[counter_count];
    int length = 64, verbosity, kind, bind, readonly, continuous, atomic, elements, none = 0;
    MPI_Datatype type;
    MPI_T_pvar_get_info(i, name, &length, &verbosity, &kind, &type, NULL, NULL, &none, &bind, &readonly, &continuous,
                        &atomic);
    if (strncmp(name, prefix, strlen(prefix)) == 0)
      MPI_T_pvar_handle_alloc(counting_session, i, NULL, &counter_handles[counter_count++], &elements);
  }
  MPI_T_pvar_start(counting_session, MPI_T_PVAR_ALL_HANDLES);
}

static inline double counted(int i) {
  unsigned long long value = 0;
  MPI_T_pvar_read(counting_session, counter_handles[i], &value);
  return (double)value;
}

/* 0 if there is no such counter. */
static inline double counted_as(const char* name) {
  for (int i = 0; i < counter_count; i++)
    if (strcmp(counter_names[i], name) == 0) return counted(i);
  return 0;
}

static inline void end_counting(void) {
  for (int i = 0; i < counter_count; i++) MPI_T_pvar_handle_free(counting_session, &counter_handles[i]);
  MPI_T_pvar_session_free(&counting_session);
  MPI_T_finalize();
  counter_count = 0;
}

#endif
