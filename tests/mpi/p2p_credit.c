// ranks: 2 4
/* Messages that are answered never want for credit, however they are received: their answers take it back. */
#include "check.h"

enum { kBytes = 4000, kRounds = 1000 }; /* several times the credit of one sender */

static char out[kBytes], in[kBytes];

static void receive(int how, int from, int bytes) {
  MPI_Status status;
  MPI_Request request;
  switch (how) {
    case 0: MPI_Recv(in, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, &status); break;
    case 1:
      MPI_Irecv(in, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, &status);
      break;
    default:
      MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
      MPI_Recv(in, bytes, MPI_BYTE, status.MPI_SOURCE, 1, MPI_COMM_WORLD, &status);
  }
  int count;
  MPI_Get_count(&status, MPI_BYTE, &count);
  CHECK(count == bytes && status.MPI_SOURCE == from);
}

/* Large ones one way, answers of no bytes the other; then large ones both ways. */
static void exchange(int how, int lower, int partner, int answer) {
  for (int i = 0; i < kRounds; i++) {
    if (lower) MPI_Send(out, kBytes, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
    receive(how, partner, lower ? answer : kBytes);
    if (!lower) MPI_Send(out, answer, MPI_BYTE, partner, 1, MPI_COMM_WORLD);
  }
}

int main(int argc, char **argv) {
  int rank, size, provided, index, count;
  MPI_Init(&argc, &argv);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handle;
  unsigned long long without = 0;
  CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_get_index("without_credit", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
  CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
  CHECK(MPI_T_pvar_start(session, handle) == MPI_SUCCESS);
  for (int how = 0; how < 3; how++) {
    exchange(how, rank < size / 2, (rank + size / 2) % size, 0);
    exchange(how, rank < size / 2, (rank + size / 2) % size, kBytes);
  }
  CHECK(MPI_T_pvar_read(session, handle, &without) == MPI_SUCCESS);
  CHECK(without == 0);
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  MPI_Finalize();
  return 0;
}
