// ranks: 2 4
// progress: event adaptive event-driven
/* TERN_PROGRESS (MPI 5.0, 2.9): what was begun is finished although nobody enters MPI: rendezvous in both directions, a
 * chain of eager messages that only credits keep going, and a nonblocking collective whose later rounds wait for
 * earlier ones. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { kLarge = 8 << 20, kPatience_ms = 20000 };

/* Outside MPI until the byte has its value; the last byte of a message is not always written last, so callers look at
 * all. */
static int comes(volatile char *where, char value) {
  for (int ms = 0; ms < kPatience_ms; ms++) {
    if (*where == value) return 1;
    usleep(1000);
  }
  return 0;
}

int main(int argc, char **argv) {
  int rank, size;
#ifdef __SANITIZE_THREAD__
  puts("skipped: what it looks at before MPI_Wait is a race by intention");
  return 0;
#endif
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char *out = malloc(kLarge), *in = malloc(kLarge);
  int to = (rank + 1) % size, from = (rank + size - 1) % size;

  for (int late = 0; late < 2; late++) { /* the receiver is first, then the sender */
    MPI_Request requests[2];
    fill(out, 1 + late + rank, kLarge);
    memset(in, 0x55, kLarge);
    in[0] = in[kLarge / 2] = in[kLarge - 1] = (char)0xee;
    MPI_Barrier(MPI_COMM_WORLD);
    if (late) usleep(rank % 2 * 20000);
    MPI_Irecv(in, kLarge, MPI_BYTE, from, 3, MPI_COMM_WORLD, &requests[0]);
    if (!late) usleep(rank % 2 * 20000);
    MPI_Isend(out, kLarge, MPI_BYTE, to, 3, MPI_COMM_WORLD, &requests[1]);
    char *want = malloc(kLarge);
    fill(want, 1 + late + from, kLarge);
    CHECK(comes(in, want[0]) && comes(in + kLarge / 2, want[kLarge / 2]) && comes(in + kLarge - 1, want[kLarge - 1]));
    for (int ms = 0; ms < kPatience_ms && memcmp(in, want, kLarge) != 0; ms += 10) usleep(10000);
    CHECK(memcmp(in, want, kLarge) == 0);
    free(want);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }

  { /* more eager bytes than the credit of one sender */
    enum { kMessages = 200, kEach = 20000 };
    MPI_Request requests[2 * kMessages];
    memset(in, 0, kMessages * kEach);
    memset(out, 7, kEach);
    for (int i = 0; i < kMessages; i++)
      MPI_Irecv(in + i * kEach, kEach, MPI_BYTE, from, i, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < kMessages; i++)
      MPI_Isend(out, kEach, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[kMessages + i]);
    for (int i = 0; i < kMessages; i++) CHECK(comes(in + (i + 1) * kEach - 1, 7));
    MPI_Waitall(2 * kMessages, requests, MPI_STATUSES_IGNORE);
  }

  { /* a collective of several rounds */
    int *mine = malloc(100000 * sizeof *mine), *sum = malloc(100000 * sizeof *sum);
    MPI_Request request;
    for (int i = 0; i < 100000; i++) mine[i] = i + rank, sum[i] = -1;
    MPI_Iallreduce(mine, sum, 100000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    volatile int *last = sum + 99999;
    int want = 99999 * size + size * (size - 1) / 2;
    for (int ms = 0; ms < kPatience_ms && *last != want; ms++) usleep(1000);
    CHECK(*last == want);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 100000; i++) CHECK(sum[i] == i * size + size * (size - 1) / 2);
    free(mine), free(sum);
  }
  free(out), free(in);
  done();
  return 0;
}
