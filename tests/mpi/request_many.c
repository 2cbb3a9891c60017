// ranks: 1 2 4
/* The Wait, Test and Request_get_status families over arrays with null, inactive and active requests
 * (3.7.5, 3.7.6). */
#include "check.h"

enum { N = 6 };
static int rank, size, to, from;

static int is_empty(const MPI_Status *s) {
  int count = -1, cancelled = -1;
  MPI_Get_count(s, MPI_BYTE, &count);
  MPI_Test_cancelled(s, &cancelled);
  return s->MPI_SOURCE == MPI_ANY_SOURCE && s->MPI_TAG == MPI_ANY_TAG && s->MPI_ERROR == MPI_SUCCESS && count == 0 &&
         !cancelled;
}

/* Receives 0..N-1 with tags 0..N-1 from the left; the sends go in the order of `tags`. */
static void start(MPI_Request *receives, MPI_Request *sends, int *in, const int *out) {
  for (int i = 0; i < N; i++) {
    in[i] = -1;
    MPI_Irecv(&in[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &receives[i]);
  }
  for (int i = N; i-- > 0;) MPI_Isend(&out[i], 1, MPI_INT, to, i, MPI_COMM_WORLD, &sends[i]);
}

static void check_status(const MPI_Status *s, int i) {
  int count = -1;
  MPI_Get_count(s, MPI_INT, &count);
  CHECK(s->MPI_SOURCE == from && s->MPI_TAG == i && count == 1);
}

int main(int argc, char **argv) {
  int in[N], out[N], flag, index, outcount, indices[N], seen[N] = {0};
  MPI_Request receives[N], sends[N], none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, inactive;
  MPI_Status status, statuses[N];
  MPI_Init(&argc, &argv);
  /* Empty statuses must overwrite these. */
  status.MPI_ERROR = MPI_ERR_OTHER;
  for (int i = 0; i < N; i++) statuses[i].MPI_ERROR = MPI_ERR_OTHER;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  for (int i = 0; i < N; i++) out[i] = 100 * rank + i;

  /* Nothing to wait for. */
  MPI_Recv_init(in, 1, MPI_INT, from, 0, MPI_COMM_WORLD, &inactive);
  MPI_Wait(&none[0], &status);
  CHECK(is_empty(&status));
  MPI_Wait(&inactive, &status);
  CHECK(is_empty(&status) && inactive != MPI_REQUEST_NULL);
  none[1] = inactive;
  index = flag = -1;
  MPI_Waitany(2, none, &index, &status);
  CHECK(index == MPI_UNDEFINED && is_empty(&status));
  MPI_Testany(2, none, &index, &flag, &status);
  CHECK(index == MPI_UNDEFINED && flag && is_empty(&status));
  MPI_Waitsome(2, none, &outcount, indices, statuses);
  CHECK(outcount == MPI_UNDEFINED);
  MPI_Testsome(2, none, &outcount, indices, statuses);
  CHECK(outcount == MPI_UNDEFINED);
  MPI_Testall(2, none, &flag, statuses);
  CHECK(flag && is_empty(&statuses[0]) && is_empty(&statuses[1]));
  MPI_Request_get_status_any(2, none, &index, &flag, &status);
  CHECK(index == MPI_UNDEFINED && flag);
  MPI_Request_get_status_some(2, none, &outcount, indices, statuses);
  CHECK(outcount == MPI_UNDEFINED);
  MPI_Waitall(2, none, statuses);
  CHECK(none[1] == inactive);
  MPI_Request_free(&inactive);
  CHECK(inactive == MPI_REQUEST_NULL);

  /* Waitall, with MPI_ERROR untouched when all is well. */
  start(receives, sends, in, out);
  for (int i = 0; i < N; i++) statuses[i].MPI_ERROR = 4711;
  MPI_Waitall(N, receives, statuses);
  for (int i = 0; i < N; i++) {
    CHECK(in[i] == 100 * from + i && receives[i] == MPI_REQUEST_NULL && statuses[i].MPI_ERROR == 4711);
    check_status(&statuses[i], i);
  }
  MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);

  /* Waitany until nothing is left; Testany the same. */
  for (int way = 0; way < 2; way++) {
    memset(seen, 0, sizeof seen);
    start(receives, sends, in, out);
    for (int left = N; left > 0; left--) {
      if (way == 0) {
        MPI_Waitany(N, receives, &index, &status);
      } else {
        do MPI_Testany(N, receives, &index, &flag, &status);
        while (!flag);
      }
      CHECK(index >= 0 && index < N && !seen[index]++ && in[index] == 100 * from + index);
      check_status(&status, index);
    }
    MPI_Waitany(N, receives, &index, &status);
    CHECK(index == MPI_UNDEFINED);
    MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);
  }

  /* Waitsome and Testsome. */
  for (int way = 0; way < 2; way++) {
    int left = N;
    memset(seen, 0, sizeof seen);
    start(receives, sends, in, out);
    while (left > 0) {
      if (way == 0) MPI_Waitsome(N, receives, &outcount, indices, statuses);
      else MPI_Testsome(N, receives, &outcount, indices, statuses);
      CHECK(outcount >= (way == 0) && outcount <= left);
      for (int i = 0; i < outcount; i++) {
        CHECK(!seen[indices[i]]++);
        check_status(&statuses[i], indices[i]);
      }
      left -= outcount;
    }
    MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);
  }

  /* Looking does not complete; Testall touches nothing before all are there. */
  start(receives, sends, in, out);
  do MPI_Request_get_status_all(N, receives, &flag, statuses);
  while (!flag);
  for (int i = 0; i < N; i++) {
    CHECK(receives[i] != MPI_REQUEST_NULL && in[i] == 100 * from + i);
    check_status(&statuses[i], i);
  }
  MPI_Request_get_status(receives[3], &flag, &status);
  CHECK(flag);
  check_status(&status, 3);
  MPI_Request_get_status_any(N, receives, &index, &flag, &status);
  CHECK(flag && index == 0);
  MPI_Request_get_status_some(N, receives, &outcount, indices, statuses);
  CHECK(outcount == N);
  do MPI_Testall(N, receives, &flag, statuses);
  while (!flag);
  MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);
  MPI_Irecv(in, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &receives[0]);
  receives[1] = MPI_REQUEST_NULL;
  MPI_Testall(2, receives, &flag, statuses);
  CHECK(!flag && receives[0] != MPI_REQUEST_NULL);
  MPI_Cancel(&receives[0]);
  MPI_Wait(&receives[0], &status);
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag && receives[0] == MPI_REQUEST_NULL);

  /* Persistent ones stay, and can be started all at once, many times. */
  for (int i = 0; i < N; i++) {
    MPI_Recv_init(&in[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &receives[i]);
    (i % 2 ? MPI_Send_init : MPI_Ssend_init)(&out[i], 1, MPI_INT, to, i, MPI_COMM_WORLD, &sends[i]);
  }
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < N; i++) out[i] = 1000 * rank + 10 * round + i;
    MPI_Startall(N, receives);
    MPI_Startall(N, sends);
    MPI_Waitall(N, sends, MPI_STATUSES_IGNORE);
    MPI_Waitall(N, receives, statuses);
    for (int i = 0; i < N; i++) {
      CHECK(receives[i] != MPI_REQUEST_NULL && in[i] == 1000 * from + 10 * round + i);
      check_status(&statuses[i], i);
    }
  }
  for (int i = 0; i < N; i++) {
    MPI_Request_free(&receives[i]);
    MPI_Request_free(&sends[i]);
  }

  /* Partners MPI_PROC_NULL: complete at once, and say so. */
  MPI_Recv_init(in, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &receives[0]);
  for (int round = 0; round < 2; round++) {
    MPI_Start(&receives[0]);
    MPI_Wait(&receives[0], &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
  }
  MPI_Request_free(&receives[0]);
  MPI_Irecv(in, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &receives[0]);
  MPI_Wait(&receives[0], &status);
  CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);

  /* The same request twice in an array, which is wrong: the second is as if it were null. */
  for (int kind = 0; kind < 3; kind++) {
    for (int way = 0; way < 3; way++) {
      if (kind == 0) MPI_Irecv(in, 1, MPI_INT, from, 9, MPI_COMM_WORLD, &receives[0]);
      if (kind == 1) MPI_Irecv(in, 1, MPI_INT, MPI_PROC_NULL, 9, MPI_COMM_WORLD, &receives[0]);
      if (kind == 2) MPI_Ibarrier(MPI_COMM_WORLD, &receives[0]);
      if (kind == 0) MPI_Send(out, 1, MPI_INT, to, 9, MPI_COMM_WORLD);
      receives[1] = receives[0];
      if (way == 0) {
        MPI_Waitall(2, receives, statuses);
        CHECK(is_empty(&statuses[1]));
      } else if (way == 1) {
        MPI_Waitsome(2, receives, &outcount, indices, statuses);
        CHECK(outcount == 2 && is_empty(&statuses[1]));
      } else {
        do MPI_Testall(2, receives, &flag, statuses);
        while (!flag);
      }
      CHECK(receives[0] == MPI_REQUEST_NULL);
    }
  }

  /* Many more than a window of a benchmark. */
  enum { kMany = 1000 };
  static int many_in[kMany];
  static MPI_Request many[2 * kMany];
  for (int i = 0; i < kMany; i++) MPI_Irecv(&many_in[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &many[i]);
  for (int i = 0; i < kMany; i++) MPI_Isend(&to, 1, MPI_INT, to, i, MPI_COMM_WORLD, &many[kMany + i]);
  MPI_Waitall(2 * kMany, many, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; i++)
    CHECK(many_in[i] == rank && many[i] == MPI_REQUEST_NULL && many[kMany + i] == MPI_REQUEST_NULL);

  /* A send whose request is freed still arrives. */
  MPI_Isend(out, 1, MPI_INT, to, 8, MPI_COMM_WORLD, &sends[0]);
  MPI_Request_free(&sends[0]);
  MPI_Recv(in, 1, MPI_INT, from, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  done();
  return 0;
}
