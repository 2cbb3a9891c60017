/* The communication patterns of Takagi et al. 2015, section 4.3, messages of one byte:
 *
 *   onetoall   in each series rank 0 sends to all others in turn
 *   alltoone   in each series all others send to rank 0
 *   repeat     both in turn, five times
 *
 * "Barriers are performed when a process receives more than 128 messages after a series": 129 series of onetoall, but
 * of alltoone only as many as bring rank 0 more than 128 messages, three with 64 ranks.
 *
 * patterns PATTERN [--rounds N] [--warm N] [--counters RANK] [--phases 1]: so many times 129 series of onetoall, and 20
 * of alltoone (48,000 for 320,000, as in the paper), are measured, after others that are not. Prints the time per
 * message (repeat: of the whole), barriers included, in microseconds, with the number of ranks as x. --counters: what
 * that rank has counted of its channels, and in the simulator all adapters. --phases: when the parts of the measured
 * part began, in milliseconds. */
#include "counters.h"

#ifdef BENCH_SIMULATED
void simulated_begin_counting(void);
void simulated_print_counts(int x);
#endif

#define MOST 128

static char byte;

/* What a rank has counted of its channels in the measured part. */
static void print_counters(int ranks) {
  for (int i = 0; i < counter_count; i++) point(counter_names[i], ranks, counted(i), "");
  end_counting();
#ifdef BENCH_SIMULATED
  simulated_print_counts(ranks);
#endif
}

/* Messages that were sent. */
static long onetoall(int rank, int ranks, long rounds) {
  const long series = rounds * (MOST + 1);
  for (long i = 1; i <= series; i++) {
    if (rank != 0) {
      MPI_Recv(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      for (int to = 1; to < ranks; to++) MPI_Send(&byte, 1, MPI_BYTE, to, 0, MPI_COMM_WORLD);
    }
    if (i % (MOST + 1) == 0) MPI_Barrier(MPI_COMM_WORLD);
  }
  return series * (ranks - 1);
}

static long alltoone(int rank, int ranks, long rounds) {
  const long series = rounds * 20, meeting = MOST / (ranks - 1) + 1;
  for (long i = 1; i <= series; i++) {
    if (rank != 0) {
      MPI_Send(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    } else {
      for (int from = 1; from < ranks; from++)
        MPI_Recv(&byte, 1, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (i % meeting == 0 || i == series) MPI_Barrier(MPI_COMM_WORLD);
  }
  return series * (ranks - 1);
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* pattern = argc > 1 ? argv[1] : "";
  const long rounds = argument(argc, argv, "--rounds", 20), warm = argument(argc, argv, "--warm", 20);
  const int repeat = strcmp(pattern, "repeat") == 0;
  const int to_all = strcmp(pattern, "onetoall") == 0, to_one = strcmp(pattern, "alltoone") == 0;
  if (ranks < 2 || !(repeat || to_all || to_one)) {
    if (rank == 0) fprintf(stderr, "patterns: onetoall, alltoone or repeat, on two ranks or more\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int counting = rank == argument(argc, argv, "--counters", -1);
  const int phases = rank == 0 && argument(argc, argv, "--phases", 0) != 0;
  double began = 0;
  long messages = 0;
  for (int measured = 0; measured < 2; measured++) {
    const long now = measured ? rounds : warm;
    MPI_Barrier(MPI_COMM_WORLD);
    if (measured && counting) {
      begin_counting("rdma_");
#ifdef BENCH_SIMULATED
      simulated_begin_counting();
#endif
    }
    began = MPI_Wtime();
    messages = 0;
    for (int i = 0; i < (repeat && measured ? 5 : 1); i++) {
      if (phases && measured && (to_all || repeat)) point("began_onetoall", i, MPI_Wtime() * 1e3, "ms");
      if (to_all || repeat) messages += onetoall(rank, ranks, now);
      if (phases && measured && (to_one || repeat)) point("began_alltoone", i, MPI_Wtime() * 1e3, "ms");
      if (to_one || repeat) messages += alltoone(rank, ranks, now);
    }
    if (phases && measured) point("ended", 0, MPI_Wtime() * 1e3, "ms");
  }
  if (rank == 0 && messages != 0) point(pattern, ranks, (MPI_Wtime() - began) * 1e6 / (double)messages, "us");
  if (counting) print_counters(ranks);
  MPI_Finalize();
  return 0;
}
