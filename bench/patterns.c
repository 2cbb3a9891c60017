/* The communication patterns of Takagi et al. 2015, section 4.3, messages of one byte:
 *
 *   onetoall   rank 0 sends to all others in turn; all meet when each has got 128 messages
 *   alltoone   all others send to rank 0; they meet when it has got 128 from each
 *   repeat     both in turn, five times
 *
 * patterns PATTERN [--rounds N] [--warm N]: so many series of 128 are measured, after others that are not. Prints the
 * time per message (repeat: of the whole), in microseconds, with the number of ranks as x. */
#include "bench.h"

#define SERIES 128

static char byte;

static void onetoall(int rank, int ranks, long rounds) {
  for (long round = 0; round < rounds; round++) {
    for (int i = 0; i < SERIES; i++) {
      if (rank != 0) {
        MPI_Recv(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        continue;
      }
      for (int to = 1; to < ranks; to++) MPI_Send(&byte, 1, MPI_BYTE, to, 0, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

static void alltoone(int rank, int ranks, long rounds) {
  for (long round = 0; round < rounds; round++) {
    for (int i = 0; i < SERIES; i++) {
      if (rank != 0) {
        MPI_Send(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        continue;
      }
      for (int from = 1; from < ranks; from++)
        MPI_Recv(&byte, 1, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char *pattern = argc > 1 ? argv[1] : "";
  const long rounds = argument(argc, argv, "--rounds", 20), warm = argument(argc, argv, "--warm", 20);
  const int repeat = strcmp(pattern, "repeat") == 0;
  const int to_all = strcmp(pattern, "onetoall") == 0, to_one = strcmp(pattern, "alltoone") == 0;
  if (ranks < 2 || !(repeat || to_all || to_one)) {
    if (rank == 0) fprintf(stderr, "patterns: onetoall, alltoone or repeat, on two ranks or more\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  double began = 0;
  if (repeat) {
    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    for (int i = 0; i < 5; i++) {
      onetoall(rank, ranks, rounds);
      alltoone(rank, ranks, rounds);
    }
  } else {
    for (int measured = 0; measured < 2; measured++) {
      MPI_Barrier(MPI_COMM_WORLD);
      began = MPI_Wtime();
      (to_all ? onetoall : alltoone)(rank, ranks, measured ? rounds : warm);
    }
  }
  const double messages = (double)SERIES * (ranks - 1) * (double)rounds * (repeat ? 10 : 1);
  if (rank == 0) point(pattern, ranks, (MPI_Wtime() - began) * 1e6 / messages, "us");
  MPI_Finalize();
  return 0;
}
