// ranks: 1 2 4
/* MPI_Cancel of sends (MPI 5.0, 3.8.4): in every mode and size, what nobody has received is taken back, whether or not
 * its data has left; what was received is not; the messages around it arrive in order. */
#include "check.h"

static const int sizes[] = {0, 1, 100, 4000, 9000, 60000, 1000000};
enum { kSizes = sizeof sizes / sizeof *sizes, kMax = 1000000 };
enum { kStandard, kSync, kBuffered, kInit, kSyncInit, kBufferedInit, kModes };

static char *out, *in;

static MPI_Request begin(int mode, int n, int to, int tag) {
  MPI_Request send;
  if (mode == kStandard) MPI_Isend(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
  if (mode == kSync) MPI_Issend(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
  if (mode == kBuffered) MPI_Ibsend(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
  if (mode == kInit) MPI_Send_init(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
  if (mode == kSyncInit) MPI_Ssend_init(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
  if (mode == kBufferedInit) MPI_Bsend_init(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
  if (mode >= kInit) MPI_Start(&send);
  return send;
}

static int cancelled(MPI_Request *request) {
  MPI_Status status;
  int flag = -1;
  CHECK(MPI_Wait(request, &status) == MPI_SUCCESS);
  MPI_Test_cancelled(&status, &flag);
  return flag;
}

/* Nobody receives: taken back; a second message with the same envelope is what arrives. */
static void unmatched(int mode, int n, int to, int from) {
  MPI_Request receive, send, second;
  fill(out, 1, n);
  send = begin(mode, n, to, 7);
  if (mode == kBuffered && n < 100) { /* others use the buffer, so this one's place in it is given to them */
    for (int i = 0; i < 3; i++) MPI_Bsend(&i, 1, MPI_INT, to, 8, MPI_COMM_WORLD);
    for (int i = 0, k; i < 3; i++) {
      MPI_Recv(&k, 1, MPI_INT, from, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      CHECK(k == i);
    }
  }
  MPI_Cancel(&send);
  CHECK(cancelled(&send));
  MPI_Barrier(MPI_COMM_WORLD); /* before it nobody may post a receive */
  CHECK((send == MPI_REQUEST_NULL) == (mode < kInit));
  if (mode >= kInit) { /* the request lives: the next start is a message of its own */
    fill(out, 2, n);
    MPI_Start(&send);
    MPI_Irecv(in, n, MPI_BYTE, from, 7, MPI_COMM_WORLD, &receive);
    CHECK(!cancelled(&send) && !cancelled(&receive) && holds(in, 2, n));
    MPI_Request_free(&send);
  }
  fill(out, 3, n);
  second = begin(kStandard, n, to, 7);
  MPI_Irecv(in, n, MPI_BYTE, from, 7, MPI_COMM_WORLD, &receive);
  CHECK(!cancelled(&second) && !cancelled(&receive) && holds(in, 3, n));
}

/* Received before the cancel: nothing is taken back. */
static void matched(int mode, int n, int to, int from) {
  MPI_Request receive, send;
  fill(out, 4, n);
  MPI_Irecv(in, n, MPI_BYTE, from, 7, MPI_COMM_WORLD, &receive);
  MPI_Sendrecv(NULL, 0, MPI_BYTE, from, 9, NULL, 0, MPI_BYTE, to, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  send = begin(mode, n, to, 7);
  MPI_Cancel(&send);
  MPI_Cancel(&send);
  /* While a channel changes, or where a filter makes the provider say "again", the path may still hold it: then it is
   * taken back, and another one comes in its place. */
  if (cancelled(&send)) {
    const char *filter = getenv("TERN_OFI_FILTER");
    CHECK(getenv("TERN_RDMA_CHANNELS") || (filter && *filter));
    MPI_Send(out, n, MPI_BYTE, to, 7, MPI_COMM_WORLD);
  }
  CHECK(!cancelled(&receive) && holds(in, 4, n));
  if (send != MPI_REQUEST_NULL) MPI_Request_free(&send);
}

/* Some of many with one envelope: those that are left keep their order. */
static void some_of_many(int n, int to, int from) {
  enum { kMany = 40 };
  static char many[kMany][4000];
  MPI_Request sends[kMany], receive;
  int kept = 0;
  for (int i = 0; i < kMany; i++) {
    fill(many[i], 100 + i, n);
    MPI_Isend(many[i], n, MPI_BYTE, to, 7, MPI_COMM_WORLD, &sends[i]);
  }
  for (int i = 0; i < kMany; i++) {
    if (i % 3 == 1) MPI_Cancel(&sends[i]);
  }
  for (int i = 0; i < kMany; i++) {
    if (i % 3 == 1) CHECK(cancelled(&sends[i]));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < kMany; i++) {
    if (i % 3 == 1) continue;
    MPI_Irecv(in, n, MPI_BYTE, from, 7, MPI_COMM_WORLD, &receive);
    CHECK(!cancelled(&receive) && holds(in, 100 + i, n));
    CHECK(!cancelled(&sends[i]));
    kept++;
  }
  CHECK(kept == kMany - kMany / 3);
}

/* A message that a matched probe has taken is received; a request that is freed after the cancel answers to nobody. */
static void probed_and_freed(int to, int from) {
  int value = 5, flag;
  MPI_Request send = begin(kStandard, 4, to, 11);
  MPI_Message message;
  MPI_Mprobe(from, 11, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  MPI_Sendrecv(NULL, 0, MPI_BYTE, from, 9, NULL, 0, MPI_BYTE, to, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Cancel(&send);
  CHECK(!cancelled(&send));
  MPI_Mrecv(&value, 4, MPI_BYTE, &message, MPI_STATUS_IGNORE);

  send = begin(kStandard, 100, to, 12);
  MPI_Cancel(&send);
  MPI_Request_free(&send);
  send = begin(kBuffered, 100, to, 12);
  MPI_Cancel(&send);
  MPI_Request_free(&send);
  /* The order of a pair of ranks covers the cancels: when this has come, they have. */
  MPI_Sendrecv(NULL, 0, MPI_BYTE, to, 9, NULL, 0, MPI_BYTE, from, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Iprobe(from, 12, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  CHECK(!flag);
}

/* Flushing a buffer whose messages are being cancelled ends, and its memory comes back. */
static void flushed(int to) {
  MPI_Request sends[8], flush;
  for (int i = 0; i < 8; i++) sends[i] = begin(kBuffered, i % 2 ? 300000 : 10, to, 13);
  MPI_Buffer_iflush(&flush);
  for (int i = 0; i < 8; i++) MPI_Cancel(&sends[i]);
  CHECK(!cancelled(&flush));
  for (int i = 0; i < 8; i++) CHECK(cancelled(&sends[i]));
}

int main(int argc, char **argv) {
  int rank, size, bytes;
  void *attached = malloc(4 * kMax);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  out = malloc(kMax);
  in = malloc(kMax);
  MPI_Buffer_attach(attached, 4 * kMax);
  for (int shift = 0; shift < size; shift++) {
    int to = (rank + shift) % size, from = (rank - shift + size) % size;
    for (int k = 0; k < kSizes; k++) {
      for (int mode = 0; mode < kModes; mode++) {
        unmatched(mode, sizes[k], to, from);
        MPI_Barrier(MPI_COMM_WORLD);
        matched(mode, sizes[k], to, from);
      }
    }
    some_of_many(8, to, from);
    some_of_many(4000, to, from);
    probed_and_freed(to, from);
    flushed(to);
  }
  MPI_Buffer_detach(&attached, &bytes);
  CHECK(bytes == 4 * kMax);
  free(attached);
  done();
}
