// ranks: 1 2 3
/* Requests that are freed without a start keep their place: partitioned sends and receives are matched in the order of
 * the init calls (MPI 5.0, 4.2.1), persistent collectives in the order of theirs (6.13). Who makes its request first,
 * who frees it, and whether the other side has made its own by then, makes no difference. A request whose partner was
 * freed says so when it is started. Active ones are neither freed nor cancelled. */
#include "check.h"

enum { kParts = 4, kEach = 3, kAll = kParts * kEach };
static int rank, size, to, from;

static int error_class(int code) {
  int class;
  MPI_Error_class(code, &class);
  return class;
}

/* All have made what they made before. */
static void settle(void) { MPI_Barrier(MPI_COMM_WORLD); }

static MPI_Request make_send(int *data) {
  MPI_Request made;
  MPI_Psend_init(data, kParts, kEach, MPI_INT, to, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &made);
  return made;
}
static MPI_Request make_receive(int *data) {
  MPI_Request made;
  MPI_Precv_init(data, 1, kAll, MPI_INT, from, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &made);
  return made;
}

/* One pair that is used, after others that were not. */
static void exchange(int salt) {
  int out[kAll], in[kAll];
  for (int i = 0; i < kAll; i++) out[i] = 1000 * rank + salt + i, in[i] = -1;
  MPI_Request requests[2] = {make_send(out), make_receive(in)};
  MPI_Startall(2, requests);
  MPI_Pready_range(0, kParts - 1, requests[0]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kAll; i++) CHECK(in[i] == 1000 * from + salt + i);
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

/* `pairs` pairs without a start; bits of `how`: receives first, the ranks meet between making both, and before they are
 * freed, sends are freed at once. */
static void unused(int pairs, int how) {
  static int out[8][kAll], in[8][kAll];
  MPI_Request sends[8], receives[8];
  for (int half = 0; half < 2; half++) {
    for (int i = 0; i < pairs; i++) {
      if (half == how % 2) {
        sends[i] = make_send(out[i]);
        if (how & 8) MPI_Request_free(&sends[i]);
      } else {
        receives[i] = make_receive(in[i]);
        if (how & 16) MPI_Request_free(&receives[i]);
      }
    }
    if (how & 2) settle();
  }
  if (how & 4) settle();
  for (int i = 0; i < pairs; i++) {
    if (sends[i] != MPI_REQUEST_NULL) MPI_Request_free(&sends[i]);
    if (receives[i] != MPI_REQUEST_NULL) MPI_Request_free(&receives[i]);
  }
}

/* Used and unused pairs in one sequence, all of one tag. */
static void mixed(void) {
  enum { kPairs = 9 };
  static int out[kPairs][kAll], in[kPairs][kAll];
  MPI_Request sends[kPairs], receives[kPairs];
  for (int i = 0; i < kPairs; i++) {
    sends[i] = make_send(out[i]);
    if (i % 3 == 1) MPI_Request_free(&sends[i]);
  }
  for (int i = 0; i < kPairs; i++) {
    receives[i] = make_receive(in[i]);
    if (i % 3 == 1) MPI_Request_free(&receives[i]);
  }
  for (int i = kPairs; i-- > 0;) {
    if (i % 3 == 1) continue;
    for (int k = 0; k < kAll; k++) out[i][k] = 1000 * rank + 50 * i + k;
    MPI_Start(&sends[i]);
    MPI_Start(&receives[i]);
    MPI_Pready_range(0, kParts - 1, sends[i]);
  }
  MPI_Waitall(kPairs, receives, MPI_STATUSES_IGNORE);
  MPI_Waitall(kPairs, sends, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kPairs; i++) {
    if (i % 3 == 1) continue;
    for (int k = 0; k < kAll; k++) CHECK(in[i][k] == 1000 * from + 50 * i + k);
    MPI_Request_free(&sends[i]);
    MPI_Request_free(&receives[i]);
  }
}

/* The partner was freed: an error, not a wait without end. */
static void one_side_only(void) {
  int out[kAll] = {0}, in[kAll];
  for (int freed_first = 0; freed_first < 2; freed_first++) {
    MPI_Request send, receive;
    if (freed_first) {
      receive = make_receive(in);
      MPI_Request_free(&receive);
      settle();
    }
    send = make_send(out);
    if (!freed_first) {
      settle();
      receive = make_receive(in);
      MPI_Request_free(&send);
      settle();
      MPI_Start(&receive);
      CHECK(error_class(MPI_Wait(&receive, MPI_STATUS_IGNORE)) == MPI_ERR_REQUEST);
      MPI_Request_free(&receive);
    } else {
      MPI_Start(&send);
      MPI_Pready_range(0, kParts - 1, send);
      CHECK(error_class(MPI_Wait(&send, MPI_STATUS_IGNORE)) == MPI_ERR_REQUEST);
      MPI_Request_free(&send);
    }
    settle();
    exchange(7 + freed_first);
  }
}

/* Without data there is a message all the same: the sender may free its request as soon as that has gone. */
static void no_data(void) {
  for (int round = 0; round < 3; round++) {
    MPI_Request send, receive;
    MPI_Psend_init(NULL, 1, 0, MPI_INT, to, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Precv_init(NULL, 1, 0, MPI_INT, from, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
    for (int again = 0; again < 2; again++) {
      if (round == 1) settle();
      MPI_Start(&send);
      MPI_Pready(0, send);
      if (round == 2) settle();
      MPI_Start(&receive);
      MPI_Wait(&send, MPI_STATUS_IGNORE);
      if (again) MPI_Request_free(&send);
      CHECK(MPI_Wait(&receive, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    MPI_Request_free(&receive);
  }
}

static void active_ones(void) {
  int out[kAll] = {0}, in[kAll];
  MPI_Request requests[2] = {make_send(out), make_receive(in)};
  MPI_Startall(2, requests);
  CHECK(error_class(MPI_Cancel(&requests[0])) == MPI_ERR_REQUEST);
  CHECK(error_class(MPI_Request_free(&requests[0])) == MPI_ERR_REQUEST);
  CHECK(error_class(MPI_Cancel(&requests[1])) == MPI_ERR_REQUEST);
  CHECK(error_class(MPI_Request_free(&requests[1])) == MPI_ERR_REQUEST);
  CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
  MPI_Barrier(MPI_COMM_WORLD); /* until here nobody's receive may have ended */
  MPI_Pready_range(0, kParts - 1, requests[0]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

/* Persistent collectives: rank r makes and frees at another time than its neighbours. */
static void collectives(void) {
  for (int round = 0; round < 6; round++) {
    int mine = rank + round, sum = -1, other = -1;
    MPI_Request unused, used, barrier;
    MPI_Allreduce_init(&mine, &other, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &unused);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &barrier);
    if ((rank + round) % 2) MPI_Request_free(&unused), MPI_Request_free(&barrier);
    MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &used);
    for (int again = 0; again < 2; again++) {
      MPI_Start(&used);
      MPI_Wait(&used, MPI_STATUS_IGNORE);
      CHECK(sum == size * (size - 1) / 2 + size * round);
      if (size > 1 && !again) {
        /* Rank 0 goes on alone until it has looked at its active request. */
        if (rank == 0) {
          MPI_Start(&used);
          CHECK(error_class(MPI_Request_free(&used)) == MPI_ERR_REQUEST);
          CHECK(error_class(MPI_Cancel(&used)) == MPI_ERR_REQUEST);
          for (int r = 1; r < size; r++) MPI_Send(&round, 1, MPI_INT, r, 0, MPI_COMM_WORLD);
        } else {
          MPI_Recv(&other, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
          MPI_Start(&used);
        }
        MPI_Wait(&used, MPI_STATUS_IGNORE);
      }
    }
    if (unused != MPI_REQUEST_NULL) MPI_Request_free(&unused), MPI_Request_free(&barrier);
    MPI_Request_free(&used);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int how = 0; how < 32; how++) {
    unused(1 + how % 5, how);
    exchange(how);
  }
  mixed();
  one_side_only();
  no_data();
  active_ones();
  collectives();
  done();
  return 0;
}
