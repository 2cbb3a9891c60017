/* What floods.py floods: ranks that exchange checked messages, and say each second how many, and what they hold of the
   system. Neighbours meet in the first seconds, all others in the middle, when the flood is on. Usage: flooded SECONDS
   AWAY_SECONDS (rank 0 first computes for so long without a call, while the others want something of it) */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kNumbers = 1000 };

static int rank, size;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void exchange(int peer, int round) {
  static int out[kNumbers], in[kNumbers];
  for (int i = 0; i < kNumbers; ++i) out[i] = rank * 1000003 + round + i;
  memset(in, 0, sizeof in);
  MPI_Sendrecv(out, kNumbers, MPI_INT, peer, 7, in, kNumbers, MPI_INT, peer, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < kNumbers; ++i) {
    if (in[i] == peer * 1000003 + round + i) continue;
    printf("wrong: rank %d, round %d, from %d, number %d\n", rank, round, peer, i);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 77);
  }
}

static int descriptors(void) {
  int count = -3; /* ".", "..", the directory's own */
  DIR* directory = opendir("/proc/self/fd");
  while (directory && readdir(directory)) ++count;
  if (directory) closedir(directory);
  return count;
}

static int resident_kb(void) {
  char line[200];
  int kb = 0;
  FILE* file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file)) sscanf(line, "VmRSS: %d", &kb);
  if (file) fclose(file);
  return kb;
}

/* Rounds in which rank `rank` meets rank `rank ^ step`; those of a size that is a power of two meet all. */
static int talk(double seconds, int steps) {
  const double end = now() + seconds;
  int rounds = 0;
  for (int again = 1; again;) {
    for (int i = 0; i < 20; ++i, ++rounds)
      for (int step = 1; step <= steps; ++step) exchange(rank ^ step, rounds);
    again = now() < end;
    /* Along the edges that have met already, until all have. */
    if (steps == 1) {
      int theirs = again;
      MPI_Sendrecv(&again, 1, MPI_INT, rank ^ 1, 8, &theirs, 1, MPI_INT, rank ^ 1, 8, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      again = again && theirs;
    } else {
      MPI_Bcast(&again, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
  }
  return rounds * steps;
}

static void report(int second, int messages) {
  int mine[3] = {-messages, descriptors(), resident_kb()}, most[3];
  MPI_Reduce(mine, most, 3, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("second %d: %d exchanges a rank, %d descriptors, %d kB\n", second, -most[0], most[1], most[2]);
  fflush(stdout);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int seconds = argc > 1 ? atoi(argv[1]) : 3;
  const double away = argc > 2 ? atof(argv[2]) : 0, end = now() + away;
  if (size & (size - 1)) MPI_Abort(MPI_COMM_WORLD, 2);
  if (rank == 0) {
    printf("begun\n");
    fflush(stdout);
    volatile double x = 0;
    while (now() < end) x += 1;
  } else {
    usleep((unsigned)(away / 6 * 1e6)); /* strangers fill rank 0's queue before it is called */
  }
  if (away == 0) talk(2, 1);
  for (int second = 1; second <= seconds; ++second) report(second, talk(1, size - 1));
  printf("exact\n");
  fflush(stdout);
  return MPI_Finalize();
}
