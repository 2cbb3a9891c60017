// ranks: 1 2 3 4 8
/* Every send mode, blocking, nonblocking and persistent, sizes around every threshold, to every rank incl. oneself. */
#include "check.h"

static const long sizes[] = {0, 1, 31, 32, 33, 64, 1000, 4096, 8191, 8192, 8193, 65536, 65537, 300000, 2000000};
enum { kSizes = sizeof sizes / sizeof *sizes, kMax = 2000000 };

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char *out = malloc(kMax), *in = malloc(kMax + 1);
  void *attached = malloc(3 * kMax);
  MPI_Buffer_attach(attached, 3 * kMax);
  for (int shift = 0; shift < size; shift++) {
    int to = (rank + shift) % size, from = (rank - shift + size) % size;
    for (int k = 0; k < kSizes; k++) {
      for (int mode = 0; mode < 8; mode++) {
        int n = (int)sizes[k], tag = 10 * k + mode;
        MPI_Request receive, send;
        MPI_Status status;
        fill(out, rank * 1000 + tag, n);
        in[n] = 77;
        if (mode == 2) { /* ready mode: the receive is there when the send begins */
          MPI_Irecv(in, n, MPI_BYTE, from, tag, MPI_COMM_WORLD, &receive);
          MPI_Sendrecv(NULL, 0, MPI_BYTE, from, 9999, NULL, 0, MPI_BYTE, to, 9999, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          MPI_Irsend(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
        } else if (mode < 4) {
          if (mode == 0) MPI_Isend(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
          if (mode == 1) MPI_Issend(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
          if (mode == 3) MPI_Ibsend(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
          MPI_Irecv(in, n, MPI_BYTE, from, tag, MPI_COMM_WORLD, &receive);
        } else if (mode < 6) {
          if (mode == 4) MPI_Send_init(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
          if (mode == 5) MPI_Ssend_init(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
          MPI_Recv_init(in, n, MPI_BYTE, from, tag, MPI_COMM_WORLD, &receive);
          for (int again = 0; again < 3; again++) {
            MPI_Start(&send);
            MPI_Start(&receive);
            MPI_Wait(&receive, &status);
            CHECK(holds(in, from * 1000 + tag, n));
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            memset(in, 0, (size_t)n);
          }
          MPI_Start(&send);
          MPI_Start(&receive);
        } else {
          MPI_Irecv(in, n, MPI_BYTE, from, tag, MPI_COMM_WORLD, &receive);
          if (mode == 6) MPI_Bsend(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD);
          if (mode == 7 && to != rank && rank % 2 == 0) MPI_Ssend(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD);
          if (mode == 7 && !(to != rank && rank % 2 == 0)) MPI_Isend(out, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, &send);
          else send = MPI_REQUEST_NULL;
        }
        MPI_Wait(&receive, &status);
        int count;
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(count == n && status.MPI_SOURCE == from && status.MPI_TAG == tag);
        CHECK(holds(in, from * 1000 + tag, n) && in[n] == 77);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        if (mode == 4 || mode == 5) {
          MPI_Request_free(&send);
          MPI_Request_free(&receive);
        }
      }
    }
  }
  MPI_Buffer_detach(&attached, &size);
  free(attached);
  free(in);
  free(out);
  done();
  return 0;
}
