// ranks: 1 2 4
// progress: default event
/* Continuations (mpix.h): callbacks when operations complete, from every call that waits or looks; statuses, null and
 * persistent requests, flags, chains, failures, and what is refused. One thread. */
#include <mpix.h>

#include "check.h"

static int rank, size, to, from;
static MPI_Request conts;
static int calls, last_code;

static int count_call(int code, void *data) {
  last_code = code;
  calls++;
  if (data) ++*(int *)data;
  return MPI_SUCCESS;
}

static void expect(int error, int error_class) {
  int got;
  MPI_Error_class(error, &got);
  CHECK(got == error_class);
}

static void one_and_many(void) {
  int out = rank, in = -1, mine = 0, count;
  MPI_Request requests[3];
  MPI_Status statuses[3];
  MPI_Start(&conts);
  MPI_Irecv(&in, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(&out, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &requests[1]);
  requests[2] = MPI_REQUEST_NULL;
  calls = 0;
  MPIX_Continueall(3, requests, count_call, &mine, 0, statuses, conts);
  for (int i = 0; i < 3; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
  MPI_Wait(&conts, MPI_STATUS_IGNORE);
  CHECK(conts != MPI_REQUEST_NULL && calls == 1 && mine == 1 && in == from && last_code == MPI_SUCCESS);
  CHECK(statuses[0].MPI_SOURCE == from && statuses[0].MPI_TAG == 1 && statuses[0].MPI_ERROR == MPI_SUCCESS);
  MPI_Get_count(&statuses[0], MPI_INT, &count);
  CHECK(count == 1);
  CHECK(statuses[2].MPI_SOURCE == MPI_ANY_SOURCE);

  /* Each its own; none at all. */
  MPI_Start(&conts);
  MPI_Irecv(&in, 1, MPI_INT, from, 2, MPI_COMM_WORLD, &requests[0]);
  MPIX_Continue(&requests[0], count_call, &mine, MPIX_CONT_REQUESTS_FREE, &statuses[0], conts);
  MPI_Isend(&out, 1, MPI_INT, to, 2, MPI_COMM_WORLD, &requests[1]);
  MPIX_Continue(&requests[1], count_call, &mine, 0, MPI_STATUS_IGNORE, conts);
  MPIX_Continueall(0, NULL, count_call, &mine, 0, MPI_STATUSES_IGNORE, conts);
  MPI_Wait(&conts, MPI_STATUS_IGNORE);
  CHECK(calls == 4 && mine == 4);
  MPI_Start(&conts);
  MPI_Wait(&conts, MPI_STATUS_IGNORE); /* without any it is complete */
}

/* Ready ones wait for the start of their request; those to be deferred, for another call. */
static void when(void) {
  int flag = 0;
  MPI_Request null = MPI_REQUEST_NULL, polled;
  calls = 0;
  MPIX_Continue(&null, count_call, NULL, 0, MPI_STATUS_IGNORE, conts);
  MPI_Test(&conts, &flag, MPI_STATUS_IGNORE);
  CHECK(flag && calls == 0); /* inactive */
  MPI_Start(&conts);
  MPI_Wait(&conts, MPI_STATUS_IGNORE);
  CHECK(calls == 1);
  MPI_Start(&conts);
  MPIX_Continue(&null, count_call, NULL, 0, MPI_STATUS_IGNORE, conts);
  CHECK(calls == 2);
  MPIX_Continue(&null, count_call, NULL, MPIX_CONT_DEFER_COMPLETE, MPI_STATUS_IGNORE, conts);
  CHECK(calls == 2);
  MPI_Request_get_status(conts, &flag, MPI_STATUS_IGNORE);
  CHECK(calls == 3);
  MPI_Wait(&conts, MPI_STATUS_IGNORE);

  /* Three at a time, and only where their request is tested. */
  MPIX_Continue_init(MPIX_CONT_POLL_ONLY, 3, MPI_INFO_NULL, &polled);
  MPI_Start(&polled);
  calls = 0;
  for (int i = 0; i < 8; i++) MPIX_Continue(&null, count_call, NULL, 0, MPI_STATUS_IGNORE, polled);
  MPI_Start(&conts);
  MPI_Test(&conts, &flag, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(calls == 0);
  for (int i = 1; i <= 3; i++) {
    MPI_Test(&polled, &flag, MPI_STATUS_IGNORE);
    CHECK(calls == (i < 3 ? 3 * i : 8) && flag == (i == 3));
  }
  MPI_Start(&polled);
  for (int i = 0; i < 8; i++) MPIX_Continue(&null, count_call, NULL, 0, MPI_STATUS_IGNORE, polled);
  MPI_Waitall(1, &polled, MPI_STATUSES_IGNORE);
  CHECK(calls == 16);
  MPI_Request_free(&polled);
}

/* A ball goes round: each arrival's callback receives again, and sends on, while the rank waits for something else. */
enum { kRounds = 300 };
static int ball, arrivals;
static MPI_Request ball_in;
static MPI_Status ball_status;

static int arrived(int code, void *data) {
  MPI_Request send;
  CHECK(code == MPI_SUCCESS && ball_status.MPI_SOURCE == from);
  arrivals++;
  static int next;
  next = ball + 1;
  if (arrivals < kRounds) {
    MPI_Irecv(&ball, 1, MPI_INT, from, 7, MPI_COMM_WORLD, &ball_in);
    MPIX_Continue(&ball_in, arrived, data, 0, &ball_status, conts);
  }
  if (next < kRounds * size) {
    MPI_Isend(&next, 1, MPI_INT, to, 7, MPI_COMM_WORLD, &send);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
  } else {
    MPI_Send(&next, 1, MPI_INT, rank, 8, MPI_COMM_WORLD); /* what this rank's main function waits for */
  }
  return MPI_SUCCESS;
}

static void chain(int blocking) {
  int end = 0, first = 0;
  MPI_Request last = MPI_REQUEST_NULL;
  arrivals = 0;
  MPI_Start(&conts);
  if (rank == size - 1 && !blocking) MPI_Irecv(&end, 1, MPI_INT, rank, 8, MPI_COMM_WORLD, &last);
  MPI_Irecv(&ball, 1, MPI_INT, from, 7, MPI_COMM_WORLD, &ball_in);
  MPIX_Continue(&ball_in, arrived, NULL, 0, &ball_status, conts);
  if (rank == size - 1) MPI_Send(&first, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
  if (rank == size - 1 && blocking) {
    MPI_Recv(&end, 1, MPI_INT, rank, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(end == kRounds * size);
  }
  MPI_Wait(&conts, MPI_STATUS_IGNORE);
  CHECK(arrivals == kRounds);
  MPI_Wait(&last, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Large messages, collectives, persistent operations. */
static void kinds(void) {
  enum { kBytes = 300000 };
  char *out = malloc(kBytes), *in = malloc(kBytes);
  MPI_Request requests[3], bare;
  int sum = 0, one = 1;
  MPI_Start(&conts);
  calls = 0;
  fill(out, rank, kBytes);
  MPI_Irecv(in, kBytes, MPI_BYTE, from, 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(out, kBytes, MPI_BYTE, to, 3, MPI_COMM_WORLD, &requests[1]);
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]);
  MPIX_Continueall(3, requests, count_call, NULL, 0, MPI_STATUSES_IGNORE, conts);
  MPI_Wait(&conts, MPI_STATUS_IGNORE);
  CHECK(calls == 1 && sum == size && holds(in, from, kBytes));

  MPI_Recv_init(in, kBytes, MPI_BYTE, from, 4, MPI_COMM_WORLD, &requests[0]);
  for (int again = 0; again < 3; again++) {
    MPI_Status status;
    memset(in, 0, kBytes);
    MPI_Start(&conts);
    MPI_Start(&requests[0]);
    bare = requests[0];
    MPIX_Continue(&requests[0], count_call, NULL, 0, &status, conts);
    CHECK(requests[0] == bare);
    MPI_Isend(out, kBytes, MPI_BYTE, to, 4, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Wait(&conts, MPI_STATUS_IGNORE);
    CHECK(calls == 2 + again && holds(in, from, kBytes) && status.MPI_TAG == 4);
  }
  MPI_Request_free(&requests[0]);
  free(out);
  free(in);
}

static int fail_call(int code, void *data) {
  (void)code, (void)data;
  calls++;
  return MPI_ERR_OTHER;
}

static void failures(void) {
  int out[2] = {1, 2}, in, marks[3], many;
  void *failed[3] = {NULL, NULL, NULL};
  MPI_Request request, null = MPI_REQUEST_NULL;
  MPI_Status status;
  calls = 0;
  MPI_Start(&conts);
  MPI_Irecv(&in, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &request);
  MPIX_Continue(&request, count_call, &marks[0], 0, &status, conts);
  MPI_Send(out, 2, MPI_INT, rank, 5, MPI_COMM_WORLD);
  expect(MPI_Wait(&conts, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
  expect(status.MPI_ERROR, MPI_ERR_TRUNCATE);
  CHECK(calls == 0);
  many = 3;
  MPIX_Continue_get_failed(conts, &many, failed);
  CHECK(many == 1 && failed[0] == &marks[0]);
  many = 3;
  MPIX_Continue_get_failed(conts, &many, failed);
  CHECK(many == 0);

  marks[1] = 0;
  MPI_Start(&conts);
  MPI_Irecv(&in, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &request);
  MPIX_Continue(&request, count_call, &marks[1], MPIX_CONT_INVOKE_FAILED, &status, conts);
  MPI_Send(out, 2, MPI_INT, rank, 5, MPI_COMM_WORLD);
  MPI_Wait(&conts, MPI_STATUS_IGNORE);
  expect(last_code, MPI_ERR_TRUNCATE);
  CHECK(calls == 1 && marks[1] == 1);

  MPI_Start(&conts);
  for (int i = 0; i < 3; i++)
    MPIX_Continue(&null, fail_call, &marks[i], MPIX_CONT_DEFER_COMPLETE, MPI_STATUS_IGNORE, conts);
  expect(MPI_Wait(&conts, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
  MPI_Start(&conts);
  MPI_Wait(&conts, MPI_STATUS_IGNORE); /* those that were left, if any, have failed, too, or are over */
  many = 3;
  MPIX_Continue_get_failed(conts, &many, failed);
  CHECK(many == 3 && failed[0] == &marks[0] && failed[2] == &marks[2]);
}

static void refused(void) {
  int data = 0, many = -1;
  MPI_Request request, other = conts, twice[2];
  expect(MPIX_Continue_init(MPIX_CONT_INVOKE_FAILED, 0, MPI_INFO_NULL, &request), MPI_ERR_ARG);
  expect(MPIX_Continue_init(0, -5, MPI_INFO_NULL, &request), MPI_ERR_ARG);
  MPI_Irecv(&data, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, &request);
  expect(MPIX_Continue(&request, count_call, NULL, 0, MPI_STATUS_IGNORE, request), MPI_ERR_REQUEST);
  expect(MPIX_Continue(&request, NULL, NULL, 0, MPI_STATUS_IGNORE, conts), MPI_ERR_ARG);
  expect(MPIX_Continue(&request, count_call, NULL, 1 << 9, MPI_STATUS_IGNORE, conts), MPI_ERR_ARG);
  expect(MPIX_Continue(&request, count_call, NULL, MPIX_CONT_POLL_ONLY, MPI_STATUS_IGNORE, conts), MPI_ERR_ARG);
  expect(MPIX_Continue(&other, count_call, NULL, 0, MPI_STATUS_IGNORE, conts), MPI_ERR_REQUEST);
  expect(MPIX_Continueall(-1, &request, count_call, NULL, 0, MPI_STATUSES_IGNORE, conts), MPI_ERR_COUNT);
  expect(MPIX_Continue_get_failed(conts, &many, NULL), MPI_ERR_ARG);
  expect(MPIX_Continue_get_failed(request, &many, NULL), MPI_ERR_REQUEST);
  expect(MPI_Cancel(&conts), MPI_ERR_REQUEST);
  twice[0] = twice[1] = request;
  expect(MPIX_Continueall(2, twice, count_call, NULL, 0, MPI_STATUSES_IGNORE, conts), MPI_ERR_REQUEST);
  MPIX_Continue(&request, count_call, NULL, 0, MPI_STATUS_IGNORE, conts);
  expect(MPI_Wait(&twice[0], MPI_STATUS_IGNORE), MPI_ERR_REQUEST); /* the continuation has it */
  expect(MPI_Request_free(&other), MPI_ERR_REQUEST);               /* never started */
  MPI_Start(&conts);
  MPI_Send(&rank, 1, MPI_INT, rank, 6, MPI_COMM_WORLD);
  MPI_Wait(&conts, MPI_STATUS_IGNORE);

  MPI_Recv_init(&data, 1, MPI_INT, rank, 6, MPI_COMM_WORLD, &request); /* keeps its handle */
  MPI_Start(&request);
  MPI_Start(&conts);
  MPIX_Continue(&request, count_call, NULL, 0, MPI_STATUS_IGNORE, conts);
  expect(MPIX_Continue(&request, count_call, NULL, 0, MPI_STATUS_IGNORE, conts), MPI_ERR_REQUEST);
  expect(MPI_Request_free(&request), MPI_ERR_REQUEST);
  MPI_Send(&rank, 1, MPI_INT, rank, 6, MPI_COMM_WORLD);
  MPI_Wait(&conts, MPI_STATUS_IGNORE);
  MPI_Request_free(&request);
}

/* Freed while it is active: what is registered still runs. */
static void freed(void) {
  int in, out = 3;
  MPI_Request request, own;
  MPIX_Continue_init(0, 0, MPI_INFO_NULL, &own);
  MPI_Start(&own);
  calls = 0;
  MPI_Irecv(&in, 1, MPI_INT, from, 9, MPI_COMM_WORLD, &request);
  MPIX_Continue(&request, count_call, NULL, 0, MPI_STATUS_IGNORE, own);
  MPI_Request_free(&own);
  CHECK(own == MPI_REQUEST_NULL);
  MPI_Send(&out, 1, MPI_INT, to, 9, MPI_COMM_WORLD);
  for (int flag, other = 0; calls == 0;) {
    MPI_Irecv(&other, 1, MPI_INT, rank, 10, MPI_COMM_WORLD, &request);
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    MPI_Send(&out, 1, MPI_INT, rank, 10, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  CHECK(calls == 1 && in == 3);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  to = (rank + 1) % size;
  from = (rank + size - 1) % size;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPIX_Continue_init(0, 0, MPI_INFO_NULL, &conts);
  one_and_many();
  when();
  chain(1);
  chain(0);
  kinds();
  failures();
  refused();
  freed();
  MPI_Request_free(&conts);
  CHECK(conts == MPI_REQUEST_NULL);
  MPI_Finalize();
  return 0;
}
