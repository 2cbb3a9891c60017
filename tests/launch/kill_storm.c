/* A job that is busy until somebody kills it: every rank exchanges messages of every protocol (eager, streamed,
 * rendezvous) with every other one, and meets all of them now and then. The kill test ends it at random moments; left
 * alone it ends itself, so that no mistake of a test can leave it running. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

enum { kMaxRanks = 16, kMaxBytes = 300000, kLifetimeSeconds = 120 };

int main(int argc, char **argv) {
  static const int sizes[] = {8, 1000, 20000, kMaxBytes};
  MPI_Request requests[2 * kMaxRanks];
  int rank, size, sum;
  alarm(kLifetimeSeconds);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > kMaxRanks) MPI_Abort(MPI_COMM_WORLD, 1);
  char *out = calloc(1, kMaxBytes), *in = malloc((size_t)size * kMaxBytes);
  for (unsigned round = 0;; round++) {
    int bytes = sizes[round % 4], count = 0;
    for (int peer = 0; peer < size; peer++) {
      if (peer != rank)
        MPI_Irecv(in + (size_t)peer * kMaxBytes, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[count++]);
    }
    for (int peer = 0; peer < size; peer++) {
      if (peer != rank) MPI_Isend(out, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    if (round % 8 == 0) MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
}
