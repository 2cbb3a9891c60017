/* Everything that a process has for itself: variables, random numbers, the C library's state, output, the clock. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int counted = 100;
static char zeros[300000];
static _Thread_local int of_thread = 7;
static int exits;

static int *place = &counted; /* an address that is each rank's own */

static void at_end(void) { printf("end %d %d\n", counted, ++exits); }

#define CHECK(condition)                                                   \
  if (!(condition)) {                                                      \
    fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #condition); \
    MPI_Abort(MPI_COMM_WORLD, 3);                                          \
  }

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  atexit(at_end);
  CHECK(argc == 4 && !strcmp(argv[1], "-a") && !strcmp(argv[3], "rest") && optind == 1);
  CHECK(getopt(argc, argv, "a:b") == 'a' && !strcmp(optarg, "two"));
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(getopt(argc, argv, "a:b") == -1 && optind == 3);

  srand((unsigned)rank + 1);
  char text[] = "x,y,z";
  const char *first = strtok(text, ",");
  counted += rank;
  of_thread += rank;
  memset(zeros, rank + 1, sizeof zeros);
  MPI_Barrier(MPI_COMM_WORLD);
  srand48(rank); /* other ranks have drawn and split meanwhile */
  CHECK(!strcmp(first, "x") && !strcmp(strtok(NULL, ","), "y"));
  CHECK(counted == 100 + rank && *place == counted && of_thread == 7 + rank);
  CHECK(zeros[0] == rank + 1 && zeros[sizeof zeros - 1] == rank + 1);
  const int drawn = rand();
  unsigned state = (unsigned)rank + 1;
  (void)state;
  srand((unsigned)rank + 1);
  CHECK(rand() == drawn);

  /* A second of sleep costs a simulation nothing. */
  struct timespec before, after, second = {1, 0};
  clock_gettime(CLOCK_MONOTONIC, &before);
  const double mpi_before = MPI_Wtime();
  nanosleep(&second, NULL);
  clock_gettime(CLOCK_MONOTONIC, &after);
  const double slept = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
  CHECK(slept >= 1 && slept < 1.5 && MPI_Wtime() - mpi_before >= 1);

  char name[MPI_MAX_PROCESSOR_NAME], host[64];
  int length;
  MPI_Get_processor_name(name, &length);
  gethostname(host, sizeof host);
  CHECK(!strcmp(name, host) && !strncmp(name, "node", 4));
  printf("rank %d of %d on %s\n", rank, size, name);
  MPI_Finalize();
  return 0;
}
