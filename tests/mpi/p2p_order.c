// ranks: 2 3 4 8
/* Non-overtaking: messages of mixed sizes on few tags, received by mixed exact and wildcard receives, in order. And a
 * flood that nobody reads for a while: all of it arrives, in order, when it is read. */
#include "check.h"

enum { kMessages = 400, kFlood = 20000 };

static int size_of(int i) {
  static const int sizes[] = {8, 40, 700, 9000, 70000, 16, 200000, 8};
  return sizes[i * 7 % 8];
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) {
    int *next = calloc((size_t)size * 3, sizeof *next);
    char *in = malloc(200000);
    for (int i = 0; i < kMessages * (size - 1); i++) {
      MPI_Status status;
      int exact = i % 3 == 0;
      int source = exact ? i / 3 % (size - 1) + 1 : MPI_ANY_SOURCE, tag = MPI_ANY_TAG;
      if (exact) { /* only when that rank still has something to send */
        int sent = next[source * 3] + next[source * 3 + 1] + next[source * 3 + 2];
        if (sent == kMessages) source = MPI_ANY_SOURCE;
      }
      MPI_Recv(in, 200000, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status);
      int from = status.MPI_SOURCE, t = status.MPI_TAG, count;
      MPI_Get_count(&status, MPI_BYTE, &count);
      int expected = 3 * next[from * 3 + t]++ + t;
      CHECK(count == size_of(expected));
      CHECK(holds(in, from * 100000 + expected, count));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int from = 1; from < size; from++) {
      for (int i = 0; i < kFlood; i++) {
        int value;
        MPI_Recv(&value, 1, MPI_INT, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(value == i);
      }
    }
    free(next);
    free(in);
  } else {
    MPI_Request requests[kMessages];
    char *out[kMessages];
    for (int i = 0; i < kMessages; i++) {
      out[i] = malloc((size_t)size_of(i));
      fill(out[i], rank * 100000 + i, size_of(i));
      MPI_Isend(out[i], size_of(i), MPI_BYTE, 0, i % 3, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kMessages; i++) free(out[i]);
    MPI_Barrier(MPI_COMM_WORLD); /* the wildcards above must not see the flood */
    for (int i = 0; i < kFlood; i++) MPI_Send(&i, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
  }
  done();
  return 0;
}
